import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from server.telemetry import tensorboard
from server.telemetry.tensorboard import events, file_version_record
from tests.tables import every_row

EDGES = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**21, 2**40, 2**63 - 1]
"""Steps on both sides of where their varints grow."""
TAGS = ["loss", "loss/generator", "train/größe/損失", "", "t" * 127, "t" * 20_000]

# Written by tf.io.TFRecordWriter and tf.compat.v1.Event of TensorFlow 2.21.
FILE_VERSION_RECORD = (
    "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"
)
EVENT = (
    "2b00000000000000861bc34b09000000000000f83f10ac022a1d0a0b0a046c6f7373150000803e"
    "0a0e0a07736b6970706564150000803fb54b07a6"
)


@st.composite
def series(draw):
    """Steps in any order, and columns of any type that a block has, NaN included."""
    count = draw(st.integers(0, 12))
    steps = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**63 - 1))
    texts = st.text(st.characters(codec="utf-8"), max_size=200)
    names = draw(st.lists(st.one_of(st.sampled_from(TAGS), texts), unique=True, max_size=5))
    dtypes = st.sampled_from([np.float32, np.bool_, np.int32])
    return (
        draw(arrays.arrays(np.int64, count, elements=steps)),
        draw(arrays.arrays(np.float64, count)),
        {name: draw(arrays.arrays(draw(dtypes), count)) for name in names},
    )


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """The events of a file as TensorFlow reads them; it raises where a checksum is wrong."""
    import tensorflow as tf

    file = tmp_path_factory.mktemp("tensorboard") / "events.out.tfevents"

    def read(payload):
        file.write_bytes(payload)
        records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
        return [tf.compat.v1.Event.FromString(record) for record in records]

    return read


def ramp(count):
    """A series of `count` steps that starts at step 100, as `events` takes it."""
    steps = np.arange(100, 100 + count)
    return steps, steps + 0.5, {"loss": steps.astype(np.float32), "skipped": steps % 2 == 0}


@settings(deadline=None, max_examples=50)
@given(series())
@example((np.array(EDGES), np.zeros(len(EDGES)), {tag: np.arange(len(EDGES)) for tag in TAGS}))
@example((np.array([0]), np.zeros(1), {"loss": np.array([np.nan]), "scale": np.array([np.inf])}))
def test_tensorflow_reads_back_what_was_written(read, drawn):
    steps, wall_times, values = drawn
    first, *rest = read(file_version_record(1.5) + events(steps, wall_times, values))
    assert (first.wall_time, first.file_version) == (1.5, "brain.Event:2")
    assert [each.step for each in rest] == steps.tolist()
    np.testing.assert_array_equal([each.wall_time for each in rest], wall_times)
    assert all([value.tag for value in each.summary.value] == list(values) for each in rest)
    for index, column in enumerate(values.values()):
        found = [each.summary.value[index].simple_value for each in rest]
        np.testing.assert_array_equal(np.array(found, np.float32), column.astype(np.float32))


def test_the_file_version_record_equals_that_of_tensorflow():
    assert file_version_record(1.5).hex() == FILE_VERSION_RECORD


def test_an_event_equals_that_of_tensorflow():
    values = {"loss": np.array([0.25], np.float32), "skipped": np.array([True])}
    assert events(np.array([300]), np.array([1.5]), values).hex() == EVENT


def test_no_steps_are_no_bytes():
    assert events(np.array([], np.int64), np.array([]), {"loss": np.array([])}) == b""


def test_a_series_can_be_written_in_parts_of_any_length():
    steps, wall_times, values = ramp(2 * tensorboard.RECORDS_PER_CHUNK + 3)
    parts = [
        events(steps[part], wall_times[part], {name: values[name][part] for name in values})
        for part in (slice(0, 5), slice(5, 5000), slice(5000, None))
    ]
    assert b"".join(parts) == events(steps, wall_times, values)


def test_numbers_beyond_float32_become_infinities():
    written = events(np.array([1]), np.array([0.0]), {"loss": np.array([-1e300])})
    assert struct.pack("<f", -np.inf) in written


@every_row("short", range(4))
def test_columns_of_unequal_lengths_are_refused(short):
    steps, wall_times, values = ramp(3)
    columns = [steps, wall_times, *values.values()]
    columns[short] = columns[short][:1]  # which NumPy would repeat for all steps
    with pytest.raises(ValueError, match="expected columns of one length"):
        events(columns[0], columns[1], dict(zip(values, columns[2:], strict=True)))
