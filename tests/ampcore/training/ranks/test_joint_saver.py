"""Checkpoints that several ranks save together."""

import numpy as np
import pytest

from ampcore import checkpoint
from ampcore.checkpoint import Checkpoint, Manifest
from ampcore.checkpoint.saver import CheckpointSaver
from ampcore.distributed.row_shards import RowShard
from ampcore.distributed.tables import whole_tables
from ampcore.distributed.tables.whole_tables import WholeTable
from ampcore.training.ranks.joint_saver import JointSaver
from tests.ampcore.distributed.thread_communicator import on_ranks

TABLE = np.arange(40, dtype=np.float32).reshape(10, 4)
MANIFEST = Manifest(
    step=7, spec={}, policy="float32", loss_scales={}, engine="graph", device="cpu", versions={}
)


@pytest.fixture
def save(monkeypatch):
    """Saves the table on two ranks to a folder; returns what each one reports."""
    monkeypatch.setattr(whole_tables, "PIECE_BYTES", 32)

    def run(folder):
        def on_rank(communicator):
            saver = CheckpointSaver(folder if communicator.rank == 0 else None, None)
            joint = JointSaver(saver, communicator)
            shard = RowShard(10, communicator.rank, communicator.size)
            made = WholeTable(shard.own_rows(TABLE), shard, communicator)
            other = WholeTable(shard.own_rows(TABLE[:, 0]), shard, communicator)
            arrays = {"table": made, "count": np.array(3), "other": other}
            event = joint.save(Checkpoint(MANIFEST, arrays))
            return joint.is_enabled, event, joint.saved_steps

        return on_ranks(2, on_rank)

    return run


def test_the_file_has_the_whole_table(save, tmp_path):
    for is_enabled, event, saved_steps in save(tmp_path):
        assert (is_enabled, event.type, saved_steps) == (True, "checkpoint_saved", 7)
    found = checkpoint.newest(tmp_path).checkpoint
    np.testing.assert_array_equal(found.arrays["table"], TABLE)
    np.testing.assert_array_equal(found.arrays["other"], TABLE[:, 0])
    assert found.arrays["count"] == 3


def test_a_full_disk_does_not_stop_the_ranks(save, tmp_path, monkeypatch):
    written = []

    def write_one_piece(descriptor, piece):
        written.append(len(piece))
        if len(written) > 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("ampcore.checkpoint.writer._write_all", write_one_piece)
    for is_enabled, event, saved_steps in save(tmp_path):
        assert (is_enabled, event.data["code"], saved_steps) == (True, "checkpoint_failed", None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_mapped_into_memory_on_request(save, tmp_path, monkeypatch):
    save(tmp_path)
    monkeypatch.setattr("ampcore.checkpoint.reader.MAPPED_BYTES", 100)
    found = checkpoint.newest(tmp_path, mapped=True).checkpoint
    assert isinstance(found.arrays["table"], np.memmap)
    assert not isinstance(found.arrays["other"], np.memmap)
    np.testing.assert_array_equal(found.arrays["table"], TABLE)
    [file] = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    assert checkpoint.newest(tmp_path, mapped=True) is None
