"""Each rank of a machine uses one GPU. No test machine has one: TensorFlow's list is replaced."""

import pytest
import tensorflow as tf

from ampcore.distributed import connection
from ampspec.errors import UnsupportedDevice


@pytest.fixture
def visible(monkeypatch):
    """A machine with two GPUs; the list is what TensorFlow may use."""
    devices = [f"/physical_device:GPU:{number}" for number in range(2)]

    def choose(chosen, kind):
        devices[:] = [chosen]

    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: list(devices))
    monkeypatch.setattr(tf.config, "set_visible_devices", choose)
    return devices


@pytest.mark.parametrize("local_rank", [0, 1])
def test_a_rank_uses_the_gpu_with_its_number(visible, local_rank):
    assert connection.use_own_accelerator(local_rank)
    assert visible == [f"/physical_device:GPU:{local_rank}"]


def test_more_ranks_than_gpus_are_refused(visible):
    message = r"local_rank: expected .* 2 GPUs, from 0; received 2"
    with pytest.raises(UnsupportedDevice, match=message):
        connection.use_own_accelerator(2)
    assert len(visible) == 2


def test_a_machine_without_gpus_computes_on_its_cores(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    assert not connection.use_own_accelerator(1)
