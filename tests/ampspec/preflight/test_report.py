import json

import pytest

from ampspec.precision.devices import DeviceInfo
from ampspec.preflight import preflight
from ampspec.preflight.report_text import format_bytes, format_count, report_lines

BF16 = DeviceInfo("cpu", "a CPU", features=frozenset({"avx512_bf16"}))


def test_a_report_is_json_with_findings_figures_and_layers(job):
    report = preflight(job(precision={"policy": "mixed_float16"}), [(BF16,)]).to_json()
    assert json.loads(json.dumps(report)) == report
    assert report["layers"][1] == {
        "network": "model",
        "path": "dense_1",
        "kind": "Dense",
        "output_shape": [16],
        "parameters": 1040,
        "multiply_adds": 1024,
        "compute_dtype": "float16",
        "variable_dtype": "float32",
    }
    assert report["figures"]["memory"]["mixed_float16"]["total"] > 0


def test_each_machine_is_checked_with_the_device_that_the_job_would_use(job):
    old, new = DeviceInfo("gpu", "old", (6, 0)), DeviceInfo("gpu", "new", (9, 0))
    machines = [(BF16, new), (BF16, old), (BF16, old)]
    findings = preflight(job(precision={"policy": "mixed_float16"}), machines).findings
    slow = [finding for finding in findings if finding.code == "no_tensor_cores"]
    assert [finding.data["device"] for finding in slow] == ["old"]


def test_a_machine_without_devices_does_not_change_the_report(job):
    spec = job(runtime={"device": "gpu"})
    assert preflight(spec, [()]) == preflight(spec)


def test_the_figures_use_the_auto_policy_of_the_first_machine(job):
    spec = job(precision={"policy": "auto"})
    assert preflight(spec, [(BF16,)]).figures.policy == "mixed_bfloat16"
    assert preflight(spec).figures.policy == "float32"


def test_a_report_without_known_layers_has_findings_but_no_figures(job):
    spec = job(
        data={"kind": "npz", "path": "mnist.npz", "batch_size": 100},
        precision={"policy": "float16"},
        loss_scale={"mode": "none"},
    )
    report = preflight(spec, [(BF16,)])
    assert (report.figures, report.tables) == (None, ())
    codes = {finding.code for finding in report.findings}
    assert codes >= {
        "layers_unknown",
        "float16_without_loss_scale",
        "float16_on_cpu",
        "batch_not_multiple_of_8",
        "epsilon_vanishes_in_float16",
    }


def test_the_preflight_does_not_match_expensive_patterns(job, monkeypatch):
    monkeypatch.setattr("ampspec.preflight.report.MAX_MATCH_STEPS", 100)
    overrides = [{"layers": ".*_.*", "dtype": "float16"}]
    report = preflight(job(precision={"policy": "float32", "overrides": overrides}))
    assert report.figures is None
    assert "may take too long to match" in report.findings[-1].message


def test_the_text_shows_every_network_and_the_layers_on_request(job):
    report = preflight(job(model={"kind": "gan"}, data={
        "kind": "synthetic", "shape": [28, 28, 1]})).to_json()  # fmt: skip
    text = "\n".join(report_lines(report, layers=True))
    assert "722,882 (generator 477,713, discriminator 245,169)" in text
    assert "discriminator: conv_1" in text
    assert "discriminator: conv_1" not in "\n".join(report_lines(report))


def test_the_text_of_a_report_without_figures_has_the_findings(job):
    report = preflight(job(data={"kind": "npz", "path": "mnist.npz"})).to_json()
    assert list(report_lines(report, layers=True)) == [
        "",
        "info: The shape of npz data is known only once the job has read it.",
        "  layers_unknown at /model",
    ]


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 "), (73_681_600_512, "73.7 G"), (0, "0 "), (10**24, "1e+03 Z")]
)
def test_counts_have_prefixes(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("size", "text"), [(1536, "1.5 KiB"), (2**20, "1.0 MiB"), (3 * 2**30, "3.0 GiB")]
)
def test_sizes_are_in_binary_units(size, text):
    assert format_bytes(size) == text
