from types import SimpleNamespace

import pytest
import tensorflow as tf

from ampcore.diagnostics import hardware
from ampspec.errors import UnsupportedDevice
from ampspec.precision.devices import DeviceInfo


@pytest.fixture
def machine(monkeypatch):
    """Make TensorFlow list other devices; returns the calls that set the visible ones."""

    def make(*kinds, visible=True, **details):
        found = [
            SimpleNamespace(name=f"/physical_device:{kind}:0", device_type=kind) for kind in kinds
        ]
        visibility_calls = []

        def listed(kind=None):
            return [one for one in found if kind in (None, one.device_type)]

        config = tf.config
        monkeypatch.setattr(config, "list_physical_devices", listed)
        monkeypatch.setattr(config, "get_visible_devices", lambda kind: listed(kind) * visible)
        monkeypatch.setattr(config, "set_visible_devices", lambda *_: visibility_calls.append(_))
        monkeypatch.setattr(config.experimental, "get_device_details", lambda _: details)
        return visibility_calls

    return make


def test_the_hardware_is_described_in_json_values():
    found = hardware.describe()
    assert found["devices"][0]["kind"] == "cpu"
    assert found["devices"][0]["cores"] >= 1
    assert found["memory_bytes"] > 2**28
    assert set(found["cpu_features"]) <= set(hardware.CPU_FEATURES)


def test_accelerators_are_described_with_their_details(machine):
    machine("GPU", "XPU", device_name="NVIDIA H200", compute_capability=(9, 0))
    _, gpu, xpu = hardware.describe()["devices"]
    assert (gpu["kind"], gpu["name"], gpu["compute_capability"]) == ("gpu", "NVIDIA H200", [9, 0])
    assert xpu["kind"] == "xpu"


def test_a_device_without_details_is_described(machine):
    machine("XPU")
    assert hardware.describe()["devices"][1] == {
        "kind": "xpu",
        "name": "/physical_device:XPU:0",
        "compute_capability": None,
        "memory_bytes": None,
    }


def test_device_info_matches_the_description(machine):
    machine("GPU", compute_capability=(7, 0))
    assert hardware.device_info("gpu").compute_capability == (7, 0)
    assert hardware.device_info("cpu").memory_bytes == hardware.describe()["memory_bytes"]
    assert hardware.device_info("xpu") == DeviceInfo("xpu")


@pytest.mark.parametrize(
    ("kinds", "wanted", "chosen"),
    [
        ((), "auto", "cpu"),
        ((), "cpu", "cpu"),
        (("GPU",), "auto", "gpu"),
        (("GPU",), "gpu", "gpu"),
        (("XPU", "GPU"), "auto", "gpu"),
        (("XPU",), "auto", "xpu"),
    ],
)
def test_the_requested_device_is_chosen_and_auto_prefers_a_gpu(machine, kinds, wanted, chosen):
    visibility_calls = machine(*kinds)
    assert hardware.select(wanted) == chosen
    assert visibility_calls == []


def test_a_job_for_the_cpu_hides_every_accelerator(machine):
    visibility_calls = machine("GPU", "XPU")
    assert hardware.select("cpu") == "cpu"
    assert visibility_calls == [([], "GPU"), ([], "XPU")]


@pytest.mark.parametrize("kinds", [(), ("XPU",)])
def test_a_missing_gpu_is_an_error_with_the_field(machine, kinds):
    machine(*kinds)
    with pytest.raises(UnsupportedDevice, match=r"runtime\.device: expected a machine with a GPU"):
        hardware.select("gpu")


def test_devices_that_an_earlier_job_has_hidden_are_an_error(machine):
    machine("GPU", visible=False)
    with pytest.raises(UnsupportedDevice, match="already hidden its GPUs"):
        hardware.select("auto")


@pytest.mark.parametrize(
    ("capability", "expected"), [((6, 1), False), ((7, 0), True), ((9, 0), True), (None, True)]
)
def test_gpus_have_tensor_cores_since_compute_capability_7(machine, capability, expected):
    machine("GPU", compute_capability=capability)
    assert hardware.has_tensor_cores() is expected


@pytest.mark.parametrize(("limit", "counts"), [("max\n", False), (str(2**28), True), ("x", False)])
def test_memory_is_limited_to_that_of_the_container(monkeypatch, tmp_path, limit, counts):
    file = tmp_path / "memory.max"
    monkeypatch.setattr(hardware, "MEMORY_LIMIT", tmp_path / "missing")
    installed = hardware.describe()["memory_bytes"]
    monkeypatch.setattr(hardware, "MEMORY_LIMIT", file)
    file.write_text(limit)
    assert hardware.describe()["memory_bytes"] == (2**28 if counts else installed)


def test_without_cpuinfo_the_cpu_features_are_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "CPUINFO_PATH", tmp_path / "missing")
    assert hardware.describe()["cpu_features"] == []
    assert hardware.describe()["devices"][0]["name"]


def test_the_peak_memory_of_a_cpu_job_is_that_of_its_process(monkeypatch, tmp_path):
    peak = hardware.peak_memory("cpu")
    assert peak.of == "process"
    assert 2**26 < peak.bytes < hardware.describe()["memory_bytes"]
    # From /proc: the peak of getrusage includes the memory from before the exec.
    status = tmp_path / "status"
    status.write_text("VmPeak:\t 9999 kB\nVmHWM:\t   123 kB\n")
    monkeypatch.setattr(hardware, "PROCESS_STATUS", status)
    assert hardware.peak_memory("cpu").bytes == 123 * 1024


def test_without_proc_status_the_peak_memory_is_that_of_getrusage(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "PROCESS_STATUS", tmp_path / "missing")
    assert hardware.peak_memory("cpu").bytes > 2**26


def test_the_peak_memory_of_a_gpu_job_is_that_of_tensorflow(monkeypatch):
    def memory_info(device):
        assert device == "GPU:0"
        return {"current": 5, "peak": 7}

    monkeypatch.setattr(tf.config.experimental, "get_memory_info", memory_info)
    assert hardware.peak_memory("gpu") == hardware.PeakMemory(7, "device")


def test_the_peak_memory_of_an_unknown_device_is_that_of_the_process():
    assert hardware.peak_memory("xpu").of == "process"
