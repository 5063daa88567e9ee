"""The summary of a run's data in words, and from the data of an event."""

from ampspec.api.data_summary import (
    MAX_LISTED,
    ClassSummary,
    ColumnSummary,
    DataSummary,
    LeftOutSummary,
    TargetSummary,
)

BIRDS = DataSummary(
    train=1600,
    validation=400,
    validation_rows="random",
    columns=[
        ColumnSummary(name="wing (cm)", role="input", dtype="float64", preparation="normalize"),
        ColumnSummary(name="species", role="target", dtype="string"),
        ColumnSummary(name="ring", role="left_out", dtype="int64"),
    ],
    column_count=3,
    targets={
        "output": TargetSummary(
            kind="class",
            size=2,
            classes=[
                ClassSummary(name="crow", examples=1600),
                ClassSummary(name="tit", examples=0),
            ],
        )
    },
    left_out=[LeftOutSummary(name="rabbit", reason="an empty folder")],
    left_out_count=1,
)


def test_a_summary_says_what_is_read_and_what_is_not():
    assert dict(BIRDS.lines()) == {
        "data": "1,600 rows to train on, 400 for validation (chosen at random)",
        "inputs": "wing (cm) (float64, normalize)",
        "target": "2 classes: crow (1,600), tit (0)",
        "not used": "ring (int64)",
        "left out": "rabbit (an empty folder)",
    }


def test_long_lists_end_with_the_number_of_the_others():
    names = [ColumnSummary(name=f"x{i}", role="input", dtype="bool") for i in range(MAX_LISTED)]
    summary = BIRDS.model_copy(update={"columns": names, "column_count": 2000})
    assert dict(summary.lines())["inputs"].endswith("x7 (bool) and 1,992 more")


def test_several_targets_have_their_names():
    numbers = TargetSummary(kind="numbers", size=1)
    summary = BIRDS.model_copy(update={"targets": {"price": numbers, "copy": numbers}})
    lines = dict(summary.lines())
    assert (lines["target price"], lines["target copy"]) == ("1 number", "1 number")


def test_a_summary_is_read_from_its_event():
    assert DataSummary.from_event({"data": BIRDS.to_json()}) == BIRDS
    for data in ({}, {"data": 7}, {"data": {"train": "many"}}):
        assert DataSummary.from_event(data) is None
