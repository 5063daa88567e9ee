"""A table that is larger than the memory of one rank: two ranks train it, and one cannot.

Checked: it fails if a checkpoint copies the rows (`capture` in place of `state_to_save`), and if
all pieces are in memory when the model is saved.
"""

import os
import subprocess
import zipfile
from types import SimpleNamespace

import h5py
import pytest

from ampcore.checkpoint.tensors import open_tensors
from tests.ampcore.distributed import memory_program
from tests.ampcore.distributed.memory_program import DIM, LIMIT_BYTES, ROWS, STEPS, VARIABLES_BYTES
from tests.ampcore.distributed.rank_processes import ROOT, run_program
from tests.memory_limit import EXCEEDED
from tests.waiting import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("python_commands")]

FIRST_STEPS = 2


@pytest.fixture(scope="module")
def ranks(python_commands, tmp_path_factory):
    """What two ranks have seen until a checkpoint and after they have resumed, and their folder."""
    folder = tmp_path_factory.mktemp("ranks")
    python = python_commands / "python"
    first = run_program(python, memory_program, folder, str(FIRST_STEPS))
    (folder / "rank-0.json").unlink()
    last = run_program(python, memory_program, folder, str(STEPS + 1))
    return SimpleNamespace(first=first, last=last, folder=folder)


def test_one_rank_cannot_hold_the_table(python_commands, tmp_path):
    command = [python_commands / "python", memory_program.__file__, tmp_path, str(STEPS + 1)]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        command, env=environ, capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert found.returncode == EXCEEDED, found.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["exceeded-0"]


def test_two_ranks_train_save_resume_and_evaluate_it_within_the_same_limit(ranks):
    for found in (*ranks.first, *ranks.last):
        assert VARIABLES_BYTES / 2 < found["peak_bytes"] < LIMIT_BYTES < VARIABLES_BYTES
    assert [found["result"]["steps"] < STEPS for found in ranks.first] == [True, True]
    for found in ranks.last:
        assert found["result"]["steps"] == STEPS
        assert found["result"]["val_loss"] is not None
        assert found["result"]["weights_digest"] == ranks.last[0]["result"]["weights_digest"]


def test_the_saved_model_has_the_whole_table(ranks):
    with zipfile.ZipFile(ranks.folder / "model.keras") as archive:
        shapes = []
        with h5py.File(archive.open("model.weights.h5")) as weights:
            weights.visititems(lambda _, item: shapes.append(getattr(item, "shape", None)))
    assert (ROWS, DIM) in shapes
    with open_tensors(ranks.folder / "weights.safetensors") as file:
        assert tuple(file.entries["embedding/embeddings"].shape) == (ROWS, DIM)
