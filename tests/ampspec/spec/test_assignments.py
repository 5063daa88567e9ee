import pytest

from ampspec.documents.assignments import with_assignments, with_values
from ampspec.jobs import SpecValidationError

DOCUMENT = {"model": {"kind": "cnn", "filters": [32, 64]}}


@pytest.mark.parametrize(
    ("assignment", "document"),
    [
        ("model.kind=mlp", {"model": {"kind": "mlp", "filters": [32, 64]}}),
        ("model.filters=[8]", {"model": {"kind": "cnn", "filters": [8]}}),
        ("model.filters.1=8", {"model": {"kind": "cnn", "filters": [32, 8]}}),
        ("train.epochs=5", DOCUMENT | {"train": {"epochs": 5}}),
        ("optimizer.learning_rate=1e-3", DOCUMENT | {"optimizer": {"learning_rate": 0.001}}),
        ("name=a=b", DOCUMENT | {"name": "a=b"}),
        ("train.steps=", DOCUMENT | {"train": {"steps": None}}),
    ],
)
def test_an_assignment_changes_one_field_and_keeps_the_rest(assignment, document):
    assert with_assignments(DOCUMENT, [assignment]) == document
    assert DOCUMENT == {"model": {"kind": "cnn", "filters": [32, 64]}}


def test_the_last_assignment_wins_and_missing_parents_are_created():
    assert with_assignments(None, ["a.b=1", "a.b=2"]) == {"a": {"b": 2}}


def test_all_bad_assignments_are_reported_at_once():
    with pytest.raises(SpecValidationError) as caught:
        with_assignments(
            DOCUMENT,
            ["model", "=1", "a..b=1", "model.kind.x=1", "model.filters.7=1", "model.kind=[", "a=1"],
        )
    assert [problem.pointer for problem in caught.value.problems] == [
        "",
        "",
        "",
        "/model/kind/x",
        "/model/filters/7",
        "/model/kind",
    ]


def test_values_are_set_without_parsing():
    values = {"model.filters.1": 8, "model.kind": "mlp", "name": "a=b", "train.steps": None}
    assert with_values(DOCUMENT, values) == {
        "model": {"kind": "mlp", "filters": [32, 8]},
        "name": "a=b",
        "train": {"steps": None},
    }
    assert DOCUMENT == {"model": {"kind": "cnn", "filters": [32, 64]}}


def test_all_unknown_paths_are_reported_at_once():
    paths = ["", "a..b", "model.kind.x", "model.filters.7", "model.filters.x"]
    with pytest.raises(SpecValidationError) as caught:
        with_values(DOCUMENT, dict.fromkeys(paths))
    assert [problem.received for problem in caught.value.problems] == paths


@pytest.mark.parametrize("path", [".".join(["labels"] * 50_000), "model.filters." + "9" * 5000])
def test_an_extremely_long_path_is_refused(path):
    with pytest.raises(SpecValidationError) as by_value:
        with_values(DOCUMENT, {path: 1})
    with pytest.raises(SpecValidationError) as by_assignment:
        with_assignments(DOCUMENT, [f"{path}=1"])
    for raised in (by_value, by_assignment):
        assert [problem.code for problem in raised.value.problems] == ["bad_assignment"]
    assert len(str(by_value.value)) < 500
