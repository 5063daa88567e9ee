from typing import get_args

import numpy as np
import pytest

from ampcore import data
from ampspec.data.data import DataSpec, Digits, Npz, Synthetic
from ampspec.errors import InvalidData
from ampspec.rules.data_rules import DIGITS_EXAMPLES, DIGITS_SHAPE


def test_every_kind_that_a_spec_can_name_can_be_loaded():
    kinds = {part.model_fields["kind"].default for part in get_args(get_args(DataSpec)[0])}
    assert set(data.LOADERS) == kinds


def test_digits_have_the_size_and_shape_of_the_constants_in_the_spec():
    digits = data.load(Digits(validation_split=0.2))
    assert digits.signature.input_shape == DIGITS_SHAPE
    assert len(digits.train.arrays.x) + len(digits.validation.arrays.x) == DIGITS_EXAMPLES
    assert (len(digits.train.arrays.x), len(digits.validation.arrays.x)) == (1437, 360)
    assert digits.signature == data.Signature(DIGITS_SHAPE, "float32", 10)
    assert digits.signature.classes == 10
    assert digits.train.arrays.x.dtype == np.float32
    assert digits.train.arrays.y.dtype == np.int32
    assert (digits.train.arrays.x.min(), digits.train.arrays.x.max()) == (0.0, 1.0)
    assert np.bincount(digits.train.arrays.y, minlength=10).min() > 100


def test_the_last_examples_are_for_validation_and_the_order_is_kept():
    whole = data.load(Digits(validation_split=0.0))
    halves = data.load(Digits(validation_split=0.5))
    np.testing.assert_array_equal(
        np.concatenate([halves.train.arrays.y, halves.validation.arrays.y]), whole.train.arrays.y
    )
    assert whole.validation is None


def test_an_epoch_has_only_whole_batches_and_the_rest_is_counted():
    digits = data.load(Digits(batch_size=256))
    assert digits.steps_per_epoch(256) == 5
    assert digits.dropped_examples(256) == 1437 - 5 * 256


def test_synthetic_data_depend_on_the_seed_alone():
    spec = Synthetic(shape=(3, 2), classes=4, examples=200, batch_size=8)
    one, same, other = (
        data.load(spec.model_copy(update={"split_seed": seed})) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.train.arrays.x, same.train.arrays.x)
    np.testing.assert_array_equal(one.validation.arrays.y, same.validation.arrays.y)
    assert not np.array_equal(one.train.arrays.x, other.train.arrays.x)
    assert one.signature.input_shape == (3, 2)
    assert one.train.arrays.x.dtype == np.float32
    assert set(one.train.arrays.y) == {0, 1, 2, 3}


def test_synthetic_data_can_be_learnt():
    made = data.load(Synthetic(shape=(64,), classes=3, examples=900, batch_size=8))
    centres = np.stack(
        [made.train.arrays.x[made.train.arrays.y == label].mean(axis=0) for label in range(3)]
    )
    distances = np.linalg.norm(made.validation.arrays.x[:, np.newaxis] - centres, axis=2)
    assert (distances.argmin(axis=1) == made.validation.arrays.y).mean() > 0.95


def test_synthetic_data_too_large_for_memory_is_a_memory_error():
    spec = Synthetic(shape=(65_536,) * 4, examples=100_000_000)
    with pytest.raises(MemoryError):
        data.load(spec)


def test_a_batch_larger_than_the_data_is_refused(tmp_path):
    arrays = {"x_train": np.zeros((10, 4, 4), np.uint8), "y_train": np.zeros(10, np.int64)}
    np.savez(tmp_path / "small.npz", **arrays)
    spec = Npz(path="small.npz", batch_size=9, validation_split=0.2)
    message = "at most 8, the number of training examples besides 2 for validation"
    with pytest.raises(InvalidData, match=message) as caught:
        data.load(spec, data_root=tmp_path)
    assert caught.value.field == "batch_size"
