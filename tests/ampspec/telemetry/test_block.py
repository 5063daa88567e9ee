import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampspec.telemetry import COLUMN_DTYPES, StepBlock
from ampspec.telemetry.json_values import column_from_json, column_to_json
from ampspec.telemetry.steps.codec import decode, encode
from ampspec.telemetry.steps.missing import MISSING, is_missing


def block(first_step=0, count=4, **extra):
    columns = {name: np.arange(count) % 2 for name in COLUMN_DTYPES}
    return StepBlock(first_step, columns | extra)


def test_columns_have_their_dtypes_and_extras_are_float32():
    step_block = block(**{"loss/generator": [1, 2, 3, 4]})
    assert {name: step_block[name].dtype for name in COLUMN_DTYPES} == COLUMN_DTYPES
    assert step_block["loss/generator"].dtype == np.float32


def test_the_step_column_is_derived_from_the_first_step():
    assert block(7)["step"].tolist() == [7, 8, 9, 10]
    assert block(7).end_step == 11
    assert "step" in block()
    assert "step" not in block().names


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one length"):
        StepBlock(0, {"loss": [1.0], "skipped": [True, False]})


def test_a_block_before_the_first_step_is_refused():
    with pytest.raises(ValueError, match="0 or more, received -1"):
        StepBlock(-1, {"loss": [1.0]})


def test_throughput_is_total_examples_over_total_time():
    step_block = StepBlock(0, {"examples": [10, 10], "step_time_s": [0.5, 1.5]})
    assert step_block.examples_per_s == 10.0
    assert StepBlock(0, {"examples": [], "step_time_s": []}).examples_per_s == 0.0


def test_equality_compares_steps_names_and_values_and_nan_equals_nan():
    nan = StepBlock(0, {"loss": [np.nan]})
    assert nan == StepBlock(0, {"loss": [np.nan]})
    assert nan != StepBlock(1, {"loss": [np.nan]})
    assert nan != StepBlock(0, {"loss": [1.0]})
    assert nan != StepBlock(0, {"grad_norm": [np.nan]})


def test_select_keeps_the_steps_and_the_requested_order():
    step_block = block(3).select(["skipped", "step", "loss"])
    assert step_block.names == ("skipped", "loss")
    assert step_block.first_step == 3
    with pytest.raises(KeyError):
        step_block.select(["grad_norm"])


@given(st.integers(0, 20), st.integers(0, 8), st.integers(0, 30), st.integers(0, 30))
def test_between_takes_exactly_the_steps_in_the_range(first_step, count, start, end):
    part = block(first_step, count).between(start, end)
    expected = [step for step in range(first_step, first_step + count) if start <= step < end]
    assert part["step"].tolist() == expected


@given(st.integers(0, 50), st.lists(st.integers(0, 5), max_size=6), st.randoms())
def test_concat_joins_the_slices_of_a_block(first_step, counts, random):
    whole = StepBlock(first_step, {"loss": [random.random() for _ in range(sum(counts))]})
    parts, step = [], first_step
    for count in counts:
        parts.append(whole.between(step, step + count))
        step += count
    joined = StepBlock.concat(parts)
    assert joined["loss"].tolist() == whole["loss"].tolist()
    if len(whole):
        assert joined == whole


def test_concat_of_no_blocks_has_every_column():
    assert StepBlock.concat([]).names == tuple(COLUMN_DTYPES)


def test_concat_fills_missing_skipped_and_examples_columns_with_zero():
    joined = StepBlock.concat([StepBlock(0, {"loss": [1.0]}), block(1, 1)])
    assert not joined["skipped"][0]
    assert joined["examples"][0] == 0


def test_concat_fills_a_missing_column_with_nan():
    joined = StepBlock.concat([block(0, 1), block(1, 1, extra=[5.0])])
    assert np.isnan(joined["extra"][0])
    assert joined["extra"][1] == 5.0


def test_concat_refuses_overlaps():
    with pytest.raises(ValueError, match="starts at step 4 or later, received one that starts at"):
        StepBlock.concat([block(0), block(3)])


def test_concat_keeps_gaps_between_blocks():
    joined = StepBlock.concat([block(0, 2), block(5, 1), block(6, 1), block(20, 1)])
    assert joined["step"].tolist() == [0, 1, 5, 6, 20]
    assert (joined.first_step, joined.end_step, len(joined)) == (0, 21, 5)
    assert joined.has_gaps
    assert not joined.between(5, 7).has_gaps


@given(st.sets(st.integers(0, 2**50), min_size=1, max_size=30), st.data())
def test_a_range_of_a_block_with_gaps_has_the_steps_in_it(numbers, data):
    steps = sorted(numbers)
    values = np.arange(len(steps), dtype=np.float32)
    sparse = StepBlock(steps[0], {"loss": values}, steps)
    start, end = (data.draw(st.integers(steps[0] - 2, steps[-1] + 2)) for _ in range(2))
    part = sparse.between(max(start, 0), max(end, 0))
    assert part["step"].tolist() == [step for step in steps if start <= step < end]
    assert part["loss"].tolist() == [values[steps.index(step)] for step in part["step"]]
    assert decode(encode(sparse)) == sparse
    assert StepBlock.concat([sparse.head(3), sparse.between(*_after(sparse, 3))]) == sparse


def _after(sparse, count):
    steps = sparse["step"]
    begin = sparse.end_step if count >= len(steps) else int(steps[count])
    return begin, sparse.end_step


@pytest.mark.parametrize("steps", [[3, 3], [4, 3], [2, 3], [3]])
def test_numbers_that_do_not_ascend_from_the_first_step_are_refused(steps):
    with pytest.raises(ValueError, match="numbers of steps"):
        StepBlock(3, {"loss": [1.0, 2.0]}, steps)


def test_an_empty_cell_is_told_from_a_computed_nan_through_every_encoding():
    cells = np.array([1, np.nan, MISSING, np.inf], np.float32)
    assert is_missing(cells).tolist() == [False, False, True, False]
    assert is_missing(cells.astype(np.float64)).tolist() == [False, False, True, False]
    stored = decode(encode(StepBlock(0, {"loss": cells})))["loss"]
    assert is_missing(stored).tolist() == [False, False, True, False]
    assert column_to_json(cells) == [1.0, "NaN", None, "Infinity"]
    back = np.asarray(column_from_json(column_to_json(cells)), np.float32)
    assert is_missing(back).tolist() == [False, False, True, False]


def test_an_arrow_table_has_the_steps_first_and_every_column_unchanged():
    step_block = block(7, extra=[1, np.nan, np.inf, 4])
    table = step_block.to_arrow()
    assert table.column_names == ["step", *COLUMN_DTYPES, "extra"]
    for name in table.column_names:
        column = table[name].to_numpy()
        assert column.dtype == step_block[name].dtype
        np.testing.assert_array_equal(column, step_block[name])


def test_a_data_frame_is_indexed_by_step():
    step_block = block(7, extra=[1, np.nan, np.inf, 4])
    frame = step_block.to_pandas()
    assert (frame.index.name, list(frame.index)) == ("step", [7, 8, 9, 10])
    assert list(frame.columns) == [*COLUMN_DTYPES, "extra"]
    for name in step_block.names:
        assert frame[name].dtype == step_block[name].dtype
        np.testing.assert_array_equal(frame[name].to_numpy(), step_block[name])


def test_rows_have_plain_python_values():
    row = next(block(2).rows())
    assert row["step"] == 2
    assert row["skipped"] is False
    assert type(row["loss"]) is float
