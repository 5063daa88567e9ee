import pytest

from ampcore.spec import SpecInvalid
from ampcore.spec.assignments import with_assignments

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
def test_one_field_changes_and_the_rest_stays(assignment, document):
    assert with_assignments(DOCUMENT, [assignment]) == document
    assert DOCUMENT == {"model": {"kind": "cnn", "filters": [32, 64]}}


def test_the_last_of_two_wins_and_an_empty_document_is_filled():
    assert with_assignments(None, ["a.b=1", "a.b=2"]) == {"a": {"b": 2}}


def test_every_bad_assignment_is_told_at_once():
    with pytest.raises(SpecInvalid) as caught:
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
