import numpy as np
import pytest

from ampcore import data, models
from ampcore.diagnostics import hardware
from ampcore.diagnostics.preflight.model_preflight import preflight_events, preflight_on_device
from ampcore.precision import layer_policies
from ampspec.errors import InvalidData
from ampspec.precision.devices import DeviceInfo
from ampspec.preflight import preflight
from ampspec.telemetry import EventType

GPU = DeviceInfo("gpu", "old", (6, 0))


@pytest.fixture
def events(job):
    """The events before the first step of a job on a GPU without Tensor Cores."""

    def collect(steps=None, **parts):
        spec = job(**parts)
        policies = layer_policies(spec.precision, GPU)
        task = models.build(spec.model, data.load(spec.data).signature, policies)
        return list(preflight_events(task, spec, GPU, policies, steps))

    return collect


def test_the_figures_come_first_and_then_each_finding(events):
    events = events(precision={"policy": "mixed_float16"}, model={"kind": "mlp", "hidden": [15]})
    assert {event.type for event in events} == {EventType.PREFLIGHT}
    assert {event.step for event in events} == {None}
    first, *findings = (event.data for event in events)
    assert first["code"] == "figures"
    assert first["data"]["parameters"] == 64 * 15 + 15 + 15 * 10 + 10
    assert first["message"].startswith("1,135 parameters; 1.7 MFLOPs per step, 86.5% of them in")
    codes = [finding["code"] for finding in findings]
    assert {"no_tensor_cores", "dimension_not_multiple_of_8"} <= set(codes)
    [size] = [one for one in findings if one["code"] == "dimension_not_multiple_of_8"]
    assert size["pointer"] == "/model/hidden/0"


def test_the_number_of_steps_may_be_given(events):
    parts = {"precision": {"policy": "mixed_float16"}, "train": {"steps": 5000}}
    codes = [event.data["code"] for event in events(**parts)]
    assert "scale_never_grows" not in codes
    assert "scale_never_grows" in [event.data["code"] for event in events(steps=10, **parts)]


def test_the_built_model_has_the_figures_predicted_from_the_spec(job):
    spec = job(model={"kind": "cnn", "filters": [8]}, precision={"policy": "mixed_bfloat16"})
    device = hardware.device_info("cpu")
    assert preflight_on_device(spec).to_json() == preflight(spec, [(device,)]).to_json()


def test_the_preflight_on_the_device_reads_the_data_of_the_job(job, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 6, 6, 1), np.float32), rng.integers(3, size=40)
    np.savez(tmp_path / "images.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    spec = job(data={"kind": "npz", "path": "images.npz", "batch_size": 8}, train={"epochs": 2})
    report = preflight_on_device(spec, tmp_path)
    assert report.figures.parameters == 36 * 16 + 16 + 16 * 3 + 3


def test_missing_data_is_an_invalid_data_error(job, tmp_path):
    with pytest.raises(InvalidData):
        preflight_on_device(job(data={"kind": "npz", "path": "nothing.npz"}), tmp_path)
