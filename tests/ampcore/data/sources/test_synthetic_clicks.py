import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore import data
from ampcore.data.registry import RESIDENT_BYTES, LoadOptions
from ampcore.data.sources.synthetic_clicks import synthetic_clicks
from ampspec.data.data import SyntheticClicks
from ampspec.errors import InvalidData


@given(
    slots=st.integers(1, 12),
    nnz=st.integers(1, 4),
    spare=st.integers(0, 100),
    seed=st.integers(0, 2**31 - 1),
)
def test_each_slot_has_its_own_range_of_keys(slots, nnz, spare, seed):
    spec = SyntheticClicks(
        slots=slots, nnz=nnz, vocabulary=slots + spare, examples=20, split_seed=seed
    )
    dataset = synthetic_clicks(spec, LoadOptions(RESIDENT_BYTES))
    keys = np.concatenate([dataset.train.arrays.x, dataset.validation.arrays.x])
    width = (slots + spare) // slots
    assert keys.shape == (20, slots, nnz)
    assert keys.dtype == np.int32
    np.testing.assert_array_equal(keys // width, np.arange(slots)[:, np.newaxis] + 0 * keys)
    assert set(np.concatenate([dataset.train.arrays.y, dataset.validation.arrays.y])) <= {0, 1}
    assert dataset.signature == data.Signature((slots, nnz), "int32", 2, slots + spare)


@pytest.fixture(scope="module")
def defaults():
    return data.load(SyntheticClicks(examples=30_000, validation_split=0.1))


def test_the_defaults_have_the_key_ranges_of_the_original_program(defaults):
    keys = defaults.train.arrays.x
    assert keys.shape[1:] == (10, 5)
    for slot in range(10):
        assert keys[:, slot].min() == 102 * slot
        assert keys[:, slot].max() == 102 * slot + 101


def test_both_labels_are_about_equally_frequent(defaults):
    assert 0.4 < defaults.train.arrays.y.mean() < 0.6


def test_labels_can_be_predicted_from_the_keys(defaults):
    counts = np.zeros((len(defaults.train.arrays.x), 1024), np.float32)
    np.add.at(
        counts, (np.arange(len(counts))[:, np.newaxis], defaults.train.arrays.x.reshape(-1, 50)), 1
    )
    # How much more often a key comes with label 1 than with label 0 estimates its weight.
    weights = (2.0 * defaults.train.arrays.y - 1) @ counts
    scores = weights[defaults.validation.arrays.x.reshape(-1, 50)].sum(axis=1)
    right = (scores > np.median(scores)) == (defaults.validation.arrays.y == 1)
    assert right.mean() > 0.8


def test_clicks_depend_on_the_seed_alone():
    one, same, other = (
        data.load(SyntheticClicks(examples=200, split_seed=seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.train.arrays.x, same.train.arrays.x)
    np.testing.assert_array_equal(one.validation.arrays.y, same.validation.arrays.y)
    assert not np.array_equal(one.train.arrays.x, other.train.arrays.x)


def test_fewer_keys_than_slots_are_refused():
    with pytest.raises(InvalidData, match="at least 10, one key per slot; received 9") as caught:
        data.load(SyntheticClicks(vocabulary=9))
    assert caught.value.field == "vocabulary"


def test_clicks_too_large_for_memory_are_a_memory_error():
    spec = SyntheticClicks(slots=65_536, nnz=65_536, vocabulary=65_536, examples=100_000_000)
    with pytest.raises(MemoryError):
        data.load(spec)
