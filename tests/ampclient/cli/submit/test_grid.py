import pytest
import typer

from ampclient.cli.submit.grid import variants
from tests.tables import every_row


def test_without_a_grid_there_is_one_variant_without_assignments():
    [only] = variants([])
    assert (only.assignments, only.suffix) == ((), "")


def test_a_grid_is_the_cross_product_of_its_axes():
    combinations = variants(["precision.policy=float32,bfloat16", "train.epochs=1, 2"])
    assert [variant.assignments for variant in combinations] == [
        ("precision.policy=float32", "train.epochs=1"),
        ("precision.policy=float32", "train.epochs=2"),
        ("precision.policy=bfloat16", "train.epochs=1"),
        ("precision.policy=bfloat16", "train.epochs=2"),
    ]
    assert [variant.suffix for variant in combinations] == [
        "float32 epochs=1", "float32 epochs=2", "bfloat16 epochs=1", "bfloat16 epochs=2"
    ]  # fmt: skip


def test_commas_in_brackets_and_quotes_do_not_separate_values():
    combinations = variants(["model.filters=[4, 8],[16]", 'labels.x="a,b",{c: [1, 2]}'])
    assert [variant.assignments for variant in combinations][:2] == [
        ("model.filters=[4, 8]", 'labels.x="a,b"'),
        ("model.filters=[4, 8]", "labels.x={c: [1, 2]}"),
    ]


def test_axes_with_the_same_last_name_are_named_by_their_full_paths():
    combinations = variants(["a.rate=1,2", "b.rate=3,4"])
    assert combinations[0].suffix == "a.rate=1 b.rate=3"


def test_a_grid_of_job_names_adds_no_suffix():
    assert [variant.suffix for variant in variants(["name=a,b"])] == ["", ""]


@every_row("grids", [["x"], ["=1"], ["a..b=1"], ["a=1,"], ["a="], ["a=1,1"], ["a=1,2", "a=3"]])
def test_an_invalid_grid_is_wrong_usage(grids):
    with pytest.raises(typer.BadParameter):
        variants(grids)
