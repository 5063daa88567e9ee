import pytest

FINDING = {
    "code": "no_tensor_cores",
    "severity": "warning",
    "pointer": "/precision/policy",
    "message": "This GPU has \x1b[31mno Tensor Cores.",
    "data": {},
}
MEMORY = {
    "weights": 2**20,
    "casts": 2**19,
    "gradients": 0,
    "optimizer": 0,
    "ema": 0,
    "activations": 2**21,
    "total": 3 * 2**20 + 2**19,
}
FIGURES = {
    "policy": "mixed_float16",
    "parameters": 1_199_882,
    "trainable_parameters": 1_199_882,
    "networks": {"model": 1_199_882},
    "flops_per_step": 73_681_600_512,
    "share_in_16_bit": 0.9999,
    "memory": {"mixed_float16": MEMORY},
}
LAYER = {
    "network": "model",
    "path": "conv_1",
    "kind": "Conv2D",
    "output_shape": [26, 26, 32],
    "parameters": 320,
    "multiply_adds": 194_688,
    "compute_dtype": "float16",
    "variable_dtype": "float32",
}


@pytest.fixture(autouse=True)
def report(server):
    server.report = {"findings": [FINDING], "figures": FIGURES, "layers": [LAYER]}


def test_validate_shows_figures_and_findings_and_queues_nothing(ampctl, spec_file, server):
    result = ampctl("validate", spec_file)
    assert result.code == 0
    assert result.out.splitlines() == [
        "policy       mixed_float16",
        "parameters   1,199,882",
        "per step     73.7 GFLOPs in matrix products, 100.0% of them in 16 bits",
        "memory       3.5 MiB in mixed_float16 (weights 1.0 MiB, 16-bit copies of the weights "
        "512.0 KiB, activations 2.0 MiB)",
        "",
        "warning: This GPU has �[31mno Tensor Cores.",
        "  no_tensor_cores at /precision/policy",
    ]
    assert server.jobs == {}


def test_the_layers_option_prints_a_table(ampctl, spec_file):
    heading, row, *_ = ampctl("validate", spec_file, "--layers").out.splitlines()
    assert heading.split()[:3] == ["layer", "kind", "output"]
    assert row.split() == [
        "conv_1", "Conv2D", "26×26×32", "320", "194,688", "float16", "float32"
    ]  # fmt: skip


def test_json_prints_the_response(ampctl, spec_file, server):
    document = ampctl("validate", spec_file, "--json", "--set", "train.epochs=7").json()
    assert document["findings"] == [FINDING]
    assert document["spec"]["train"]["epochs"] == 7


def test_a_finding_of_severity_error_fails(ampctl, spec_file, server):
    server.report["findings"] = [{**FINDING, "severity": "error"}]
    assert ampctl("validate", spec_file).code == 3


def test_an_invalid_spec_fails_with_its_problems(ampctl, spec_file):
    result = ampctl("validate", spec_file, "--set", "modle=1")
    assert result.code == 3
    assert "/modle" in result.err
