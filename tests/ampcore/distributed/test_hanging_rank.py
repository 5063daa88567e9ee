"""A rank that is alive, but takes no longer part in the exchanges."""

import re

from tests.ampcore.distributed import hanging_program
from tests.ampcore.distributed.rank_processes import run_program


def test_a_rank_that_hangs_is_named_on_all_ranks(python_commands, tmp_path):
    """Checked: if the watch never calls, the program of rank 0 does not end."""
    for found in run_program(python_commands / "python", hanging_program, tmp_path):
        assert found["ranks"] == [1]
        message = "The communication did not end within .*: rank 1 did not take part."
        assert re.fullmatch(message, found["message"])
