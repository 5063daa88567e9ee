"""A rank that hangs between two exchanges, in two real processes."""

import pytest

from tests.ampcore.distributed import hanging_program
from tests.ampcore.distributed.rank_processes import run_program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("python_commands")]


def test_a_rank_that_hangs_in_python_is_lost_and_named_on_all_ranks(python_commands, tmp_path):
    """Checked: without the activity in heartbeats the program does not end."""
    for found in run_program(python_commands / "python", hanging_program, tmp_path):
        assert found["ranks"] == [1]
        assert found["message"].startswith("Rank 1 was lost: its training has done nothing for 2")
