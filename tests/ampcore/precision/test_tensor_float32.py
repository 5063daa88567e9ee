import pytest
import tensorflow as tf

from ampcore import JobSpec, Trainer
from ampcore.precision.tensor_float32 import tensor_float32
from ampspec.precision.devices import DeviceInfo

SPEC = {
    "model": {"kind": "mlp", "hidden": [4]},
    "data": {"kind": "digits"},
    "runtime": {"device": "cpu", "engine": "graph"},
    "train": {"steps": 2},
}


def is_allowed():
    return tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.fixture
def forbidden():
    """A process in which an earlier run has left TF32 off."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    yield
    tf.config.experimental.enable_tensor_float_32_execution(True)


def run(precision):
    seen, events = [], []
    spec = JobSpec.parse(SPEC | {"precision": precision})
    result = Trainer(spec).run(
        on_event=events.append, should_stop=lambda: bool(seen.append(is_allowed()))
    )
    [started] = [event.data for event in events if event.type == "started"]
    return seen, result, started


def test_a_run_without_tf32_does_not_affect_the_next_one():
    assert is_allowed()
    seen, result, started = run({"tf32": False})
    assert set(seen) == {False}
    assert is_allowed()
    assert result.to_json()["tf32"] is started["tf32"] is False


def test_a_run_allows_tf32_by_default_whatever_the_process_did_before(forbidden):
    seen, result, _ = run({})
    assert set(seen) == {True}
    assert not is_allowed()
    # A CPU has no TF32.
    assert result.tf32 is False


def test_the_setting_is_restored_after_an_error():
    def fails():
        with tensor_float32(allowed=False):
            assert not is_allowed()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert is_allowed()


@pytest.mark.parametrize(
    ("device", "has"),
    [
        (DeviceInfo("cpu"), False),
        (DeviceInfo("gpu"), True),
        (DeviceInfo("gpu", compute_capability=(7, 5)), False),
        (DeviceInfo("gpu", compute_capability=(8, 0)), True),
    ],
)
def test_gpus_have_tf32_from_compute_capability_8_on(device, has):
    assert device.has_tf32 is has
