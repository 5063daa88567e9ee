"""A job on four ranks, with an overflow on the last one only, compared with one process."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.ampcore.distributed import four_ranks_program
from tests.ampcore.distributed.four_ranks_program import OVERFLOW_STEP, RANKS, STEPS, train, trainer
from tests.ampcore.distributed.rank_processes import arrays_of, run_program

pytestmark = pytest.mark.xdist_group("python_commands")


@pytest.fixture(scope="module")
def four(python_commands, tmp_path_factory):
    """What the ranks have seen, and their final states."""
    folder = tmp_path_factory.mktemp("four-ranks")
    found = run_program(python_commands / "python", four_ranks_program, folder, ranks=RANKS)
    return SimpleNamespace(found=found, arrays=arrays_of(folder, "weights", RANKS))


def test_four_ranks_train_as_one_process_that_accumulates_four_times(four):
    alone, expected = train(trainer(accumulate=RANKS))
    rows = four.found[0]
    assert len(rows["loss"]) == STEPS
    for column in ("skipped", "loss_scale"):
        assert rows[column] == alone[column]
    for column in ("loss", "grad_norm"):
        np.testing.assert_allclose(rows[column], alone[column], rtol=1e-5)
    for name, array in expected.items():
        np.testing.assert_allclose(four.arrays[0][name], array, rtol=1e-6, atol=1e-6, err_msg=name)


def test_an_infinity_on_the_last_rank_skips_the_step_on_all_four(four):
    rows, before = four.found[0], OVERFLOW_STEP - 1
    assert (rows["skipped"][before], rows["skipped"][OVERFLOW_STEP]) == (False, True)
    # With this scale the step before was applied: the infinity alone is the cause.
    assert rows["loss_scale"][OVERFLOW_STEP] == rows["loss_scale"][before]
    first, *others = four.arrays
    for other in others:
        assert {name: array.tobytes() for name, array in other.items()} == {
            name: array.tobytes() for name, array in first.items()
        }
    assert all(np.isfinite(array).all() for array in first.values())
