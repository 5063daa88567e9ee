import pytest

from ampspec.precision.devices import DeviceInfo, choose_device

CPU = {"kind": "cpu", "name": "AMD EPYC", "cores": 2}
GPU = {"kind": "gpu", "name": "NVIDIA H200", "compute_capability": [9, 0], "memory_bytes": 2**37}


def test_devices_are_parsed_from_the_hardware_of_a_worker():
    hardware = {"devices": [CPU, GPU], "cpu_features": ["avx512_bf16"], "memory_bytes": 2**35}
    assert DeviceInfo.from_json(hardware) == (
        DeviceInfo("cpu", "AMD EPYC", None, frozenset({"avx512_bf16"}), 2**35),
        DeviceInfo("gpu", "NVIDIA H200", (9, 0), frozenset(), 2**37),
    )


@pytest.mark.parametrize(
    "hardware",
    [
        {},
        {"devices": None},
        {"devices": ["CPU"]},
        {"devices": [{"kind": "tpu"}]},
        {"device": "script"},
        {"devices": "cpu"},
    ],
)
def test_malformed_hardware_has_no_devices(hardware):
    assert DeviceInfo.from_json(hardware) == ()


@pytest.mark.parametrize("capability", [None, [9], "9.0", [9, "x"], 9])
def test_a_missing_or_malformed_compute_capability_is_unknown(capability):
    [device] = DeviceInfo.from_json({"devices": [{**GPU, "compute_capability": capability}]})
    assert device.compute_capability is None


@pytest.mark.parametrize(
    ("device", "fast"),
    [
        (DeviceInfo("cpu"), set()),
        (DeviceInfo("cpu", features=frozenset({"avx512_bf16"})), {"bfloat16"}),
        (DeviceInfo("cpu", features=frozenset({"amx_bf16", "amx_fp16"})), {"bfloat16", "float16"}),
        (DeviceInfo("gpu", compute_capability=(6, 1)), set()),
        (DeviceInfo("gpu", compute_capability=(7, 0)), {"float16"}),
        (DeviceInfo("gpu", compute_capability=(8, 0)), {"bfloat16", "float16"}),
        (DeviceInfo("gpu"), {"bfloat16", "float16"}),
        (DeviceInfo("xpu"), {"bfloat16", "float16"}),
    ],
)
def test_a_device_computes_fast_in_the_dtypes_that_it_has_instructions_for(device, fast):
    found = {dtype for dtype in ("float16", "bfloat16") if device.computes_fast_in(dtype)}
    assert found == fast
    assert device.computes_fast_in("float32")


@pytest.mark.parametrize(
    ("wanted", "kind"), [("auto", "gpu"), ("gpu", "gpu"), ("cpu", "cpu"), ("xpu", None)]
)
def test_a_job_prefers_the_device_that_it_asks_for(wanted, kind):
    chosen = choose_device([DeviceInfo("cpu"), DeviceInfo("gpu")], wanted)
    assert (chosen.kind if chosen else None) == kind
