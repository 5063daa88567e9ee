"""Each check has its finding for a job with the problem and none for a job without it."""

import pytest

from ampspec.jobs import JobSpec
from ampspec.precision.devices import DeviceInfo
from ampspec.preflight import run_checks
from ampspec.preflight.case import Case
from ampspec.preflight.checks.alignment import nearest_multiples
from ampspec.preflight.checks.layers import probabilities_before_loss
from ampspec.preflight.layer_table import LayerRow, LayerTable

MIXED = {"policy": "mixed_float16"}
PURE = {"policy": "float16"}
DIGITS = {"kind": "digits", "batch_size": 256}


def overridden(layers, dtype, policy="mixed_float16"):
    return {"policy": policy, "overrides": [{"layers": layers, "dtype": dtype}]}


def test_a_plain_float32_job_has_no_findings(findings_of, cpu):
    assert findings_of() == {}
    assert findings_of(on=cpu) == {}


# ---- Layers that stay in float32


def test_outputs_in_float32_are_a_finding(findings_of):
    finding = findings_of(precision=MIXED)["kept_in_float32"]
    assert (finding.severity, finding.pointer) == ("info", "/precision/policy")
    assert finding.data == {"layers": ["predictions"], "why": "output"}
    assert "kept_in_float32" not in findings_of(precision={"policy": "float32"})


def test_a_16_bit_override_of_the_output_is_a_warning(findings_of):
    finding = findings_of(precision=overridden("predictions", "float16"))["kept_in_float32"]
    assert (finding.severity, finding.pointer) == ("warning", "/precision/overrides/0/dtype")


def test_an_input_stage_in_float32_is_a_finding(findings_of):
    codes = findings_of(model={"kind": "lenet5"}, precision=MIXED)
    assert codes["kept_in_float32"].data["layers"]


@pytest.mark.parametrize(
    ("facts", "code"),
    [({"output": True}, "half_precision_output"), ({"softmax": True}, "half_precision_softmax")],
)
def test_an_output_or_softmax_in_16_bits_is_a_warning(job, facts, code):
    half = LayerRow("end", "Dense", (4,), (2,), compute_dtype="float16", **facts)
    findings = run_checks(
        Case(job(precision=MIXED), "mixed_float16", (LayerTable("model", (half,)),))
    )
    [finding] = [finding for finding in findings.findings if finding.code == code]
    assert (finding.severity, finding.data) == ("warning", {"layers": ["end"]})


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_a_layer_of_integers_or_double_precision_is_no_layer_in_16_bits(job, dtype):
    slow_device = DeviceInfo("cpu", features=frozenset({"avx2"}))
    layer = LayerRow("lookup", "IntegerLookup", (1,), (2,), compute_dtype=dtype, output=True)
    case = Case(job(), "float32", (LayerTable("model", (layer,)),), (slow_device,))
    codes = {finding.code for finding in run_checks(case).findings}
    assert not codes & {"half_precision_output", "bfloat16_on_cpu", "float16_on_cpu"}
    assert case.half_dtypes == ()


def test_an_output_in_float32_is_no_warning(findings_of):
    codes = findings_of(precision=MIXED)
    assert not {"half_precision_output", "half_precision_softmax"} & codes.keys()


LOGITS = {"layer": "Dense", "name": "out", "units": "classes"}
SOFTMAX = {"layer": "Softmax", "name": "out"}
SIGMOID = {"layer": "Activation", "name": "out", "activation": "sigmoid"}


@pytest.mark.parametrize(
    ("last", "task", "is_found"),
    [
        (LOGITS, None, False),
        (LOGITS | {"activation": "softmax"}, None, True),
        (SOFTMAX, {"kind": "classification"}, True),
        (SIGMOID, {"kind": "classification"}, True),
        (LOGITS | {"activation": "relu"}, None, False),
    ],
)
def test_an_own_output_of_probabilities_is_a_warning(findings_of, last, task, is_found):
    layers = [{"layer": "Flatten"}, {"layer": "Dense", "units": "classes"}, last]
    more = {} if task is None else {"task": task}
    finding = findings_of(model={"kind": "layers", "layers": layers}, **more)
    if is_found:
        warning = finding["probabilities_before_loss"]
        assert (warning.severity, warning.data) == ("warning", {"layers": ["out"]})
    else:
        assert "probabilities_before_loss" not in finding


@pytest.mark.parametrize(("kind", "is_found"), [("regression", False), ("multi_label", True)])
def test_a_sigmoid_may_predict_numbers_but_not_labels(kind, is_found):
    last = {"layer": "Dense", "name": "out", "units": 1, "activation": "sigmoid"}
    document = {
        "model": {"kind": "layers", "layers": [last]},
        "data": {"kind": "npz", "path": "a.npz"},
        "task": {"kind": kind},
    }
    case = Case(JobSpec.parse(document), "float32", None)
    assert bool([*probabilities_before_loss(case)]) == is_found


def test_an_override_that_matches_no_layer_is_an_error(findings_of):
    finding = findings_of(precision=overridden("dens_1", "float32"))["override_matches_nothing"]
    assert (finding.severity, finding.pointer) == ("error", "/precision/overrides/0/layers")
    assert "dense_1" in finding.message
    assert "override_matches_nothing" not in findings_of(precision=overridden("dense_1", "float32"))


def test_roles_of_a_layer_without_such_products_are_an_error(findings_of):
    def with_roles(layers):
        override = {"layers": layers, "dtype": "float32", "roles": ["weight_gradient"]}
        return findings_of(precision=MIXED | {"overrides": [override]})

    finding = with_roles("flatten")["override_matches_nothing"]
    assert "with products by role" in finding.message
    assert "override_matches_nothing" not in with_roles("dense_1")


def test_an_override_may_name_a_sub_layer(findings_of, job):
    from ampspec.networks import DataShape
    from ampspec.preflight import tables_from_spec

    precision = overridden("attention/query", "float32")
    spec = job(model={"kind": "transformer_lm"}, precision=precision, data={
        "kind": "text", "path": "a.txt"})  # fmt: skip
    tables = tables_from_spec(spec, DataShape((16,), 30))
    codes = {finding.code for finding in run_checks(Case(spec, "mixed_float16", tables)).findings}
    assert "override_matches_nothing" not in codes


# ---- The loss scale


@pytest.mark.parametrize("precision", [MIXED, PURE, {"policy": "O1"}, overridden("1", "float16")])
def test_float16_without_a_loss_scale_is_a_warning(findings_of, precision):
    finding = findings_of(precision=precision, loss_scale={"mode": "none"})[
        "float16_without_loss_scale"
    ]
    assert (finding.severity, finding.pointer) == ("warning", "/loss_scale/mode")
    assert "float16_without_loss_scale" not in findings_of(precision=precision)


def test_bfloat16_needs_no_loss_scale(findings_of):
    codes = findings_of(precision={"policy": "mixed_bfloat16"}, loss_scale={"mode": "none"})
    assert not {"float16_without_loss_scale", "loss_scale_without_float16"} & codes.keys()


def test_a_loss_scale_without_float16_is_a_finding(findings_of):
    scale = {"mode": "dynamic"}
    assert findings_of(loss_scale=scale)["loss_scale_without_float16"].severity == "info"
    assert "loss_scale_without_float16" not in findings_of(loss_scale=scale, precision=MIXED)


@pytest.mark.parametrize(("scale", "is_found"), [(2.0**25, True), (2.0**23, False)])
def test_a_fixed_scale_that_overflows_float16_is_a_warning(findings_of, scale, is_found):
    # 65,504 × 256 labels is just under 2 ** 24.
    codes = findings_of(precision=MIXED, loss_scale={"mode": "fixed", "scale": scale})
    assert ("fixed_scale_overflows" in codes) == is_found


def test_a_too_large_initial_scale_is_a_finding_with_the_number_of_skips(findings_of):
    scale = {"mode": "dynamic", "initial": 2.0**32, "maximum": 2.0**32, "hysteresis": 2}
    finding = findings_of(precision=MIXED, loss_scale=scale)["initial_scale_overflows"]
    assert (finding.severity, finding.data["skips"]) == ("info", 2 * 9)
    guard = {"max_consecutive_skips": 10}
    worse = findings_of(precision=MIXED, loss_scale=scale, guard=guard)["initial_scale_overflows"]
    assert worse.severity == "warning"
    assert "initial_scale_overflows" not in findings_of(precision=MIXED)


def test_a_run_shorter_than_the_growth_interval_is_a_finding(findings_of):
    finding = findings_of(precision=MIXED, train={"steps": 1999})["scale_never_grows"]
    assert finding.data == {"steps": 1999}
    assert "scale_never_grows" not in findings_of(precision=MIXED, train={"steps": 2000})
    assert "scale_never_grows" not in findings_of(train={"steps": 1999})


def test_one_step_is_written_in_the_singular(findings_of):
    message = findings_of(precision=MIXED, train={"steps": 1})["scale_never_grows"].message
    assert message.startswith("The run has 1 step, ")


def test_a_calibration_too_short_to_grow_or_longer_than_the_run_is_a_finding(findings_of):
    short = {"mode": "calibrated", "calibration_steps": 10}
    codes = findings_of(precision=MIXED, loss_scale=short, train={"steps": 5000})
    assert codes["scale_never_grows"].message.startswith("A calibration has 10 steps")
    assert "calibration_longer_than_run" not in codes
    long = {"mode": "calibrated", "calibration_steps": 5000}
    codes = findings_of(precision=MIXED, loss_scale=long, train={"steps": 5000})
    assert "calibration_longer_than_run" in codes
    assert "scale_never_grows" not in codes


# ---- The optimizer


@pytest.mark.parametrize(
    ("epsilon", "in_float16"), [(1e-8, 0.0), (1e-7, 2.0**-23), (2.0**-24, 2.0**-24)]
)
def test_an_epsilon_that_vanishes_in_float16_weights_is_a_finding(findings_of, epsilon, in_float16):
    optimizer = {"kind": "adam", "epsilon": epsilon}
    finding = findings_of(precision=PURE, optimizer=optimizer)["epsilon_vanishes_in_float16"]
    assert finding.pointer == "/optimizer/epsilon"
    assert finding.data == {"epsilon": epsilon, "in_float16": in_float16}


@pytest.mark.parametrize(
    ("precision", "optimizer"),
    [
        (PURE, {"kind": "adam", "epsilon": 2.0**-14}),
        (PURE, {"kind": "sgd"}),
        (MIXED, {"kind": "adam", "epsilon": 1e-8}),
        ({"policy": "bfloat16"}, {"kind": "adam", "epsilon": 1e-8}),
    ],
)
def test_an_epsilon_that_float16_can_hold_is_no_finding(findings_of, precision, optimizer):
    assert "epsilon_vanishes_in_float16" not in findings_of(
        precision=precision, optimizer=optimizer
    )


def test_the_epsilon_of_each_networks_optimizer_is_checked(findings_of):
    codes = findings_of(
        model={"kind": "gan", "generator": [8, 8], "discriminator": [8]},
        precision=PURE,
        optimizer={"kind": "sgd"},
        optimizers={"discriminator": {"kind": "rmsprop"}},
        data={"kind": "synthetic", "shape": [8, 8, 1]},
    )
    assert codes["epsilon_vanishes_in_float16"].pointer == "/optimizers/discriminator/epsilon"


@pytest.mark.parametrize(("policy", "dtype"), [("O3", "float16"), ("bfloat16", "bfloat16")])
def test_weights_in_16_bits_are_a_finding(findings_of, policy, dtype):
    assert findings_of(precision={"policy": policy})["weights_in_16_bits"].data == {"dtype": dtype}
    assert "weights_in_16_bits" not in findings_of(precision=MIXED)


@pytest.mark.parametrize(("warm_up", "is_found"), [(100, True), (101, True), (99, False)])
def test_a_warm_up_at_least_as_long_as_the_run_is_a_warning(findings_of, warm_up, is_found):
    optimizer = {"kind": "adam", "schedule": {"kind": "cosine", "warmup_steps": warm_up}}
    codes = findings_of(optimizer=optimizer, train={"steps": 100})
    assert ("warm_up_longer_than_run" in codes) == is_found


# ---- Sizes


def test_a_16_bit_layer_whose_size_is_no_multiple_of_8_is_a_finding_with_better_sizes(
    findings_of, gpu
):
    model = {"kind": "mlp", "hidden": [64, 63]}
    finding = findings_of(on=gpu(), precision=MIXED, model=model)["dimension_not_multiple_of_8"]
    assert (finding.severity, finding.pointer) == ("warning", "/model/hidden/1")
    expected = {"layer": "dense_2", "dimension": "units", "size": 63, "nearest": [56, 64]}
    assert finding.data == expected


@pytest.mark.parametrize(
    ("model", "pointer"),
    [
        ({"kind": "cnn", "filters": [31]}, "/model/filters/0"),
        ({"kind": "cnn", "dense": [129]}, "/model/dense/0"),
        ({"kind": "resnet", "depth": 8, "width": 12}, "/model/width"),
        ({"kind": "lenet5"}, "/model/kind"),
    ],
)
def test_the_finding_points_at_the_field_to_change(findings_of, cpu, model, pointer):
    finding = findings_of(on=cpu, precision={"policy": "mixed_bfloat16"}, model=model)
    assert finding["dimension_not_multiple_of_8"].pointer == pointer
    assert finding["dimension_not_multiple_of_8"].severity == "info"


@pytest.mark.parametrize(
    "parts",
    [
        {"model": {"kind": "mlp", "hidden": [63]}},
        {"model": {"kind": "mlp", "hidden": [64]}, "precision": MIXED},
        {"model": {"kind": "mlp", "hidden": [63]}, "precision": overridden("dense_1", "float32")},
    ],
)
def test_float32_layers_and_good_sizes_are_no_finding(findings_of, parts):
    assert "dimension_not_multiple_of_8" not in findings_of(**parts)


def test_a_batch_that_is_no_multiple_of_8_is_a_finding(findings_of, gpu):
    data = {"kind": "digits", "batch_size": 250}
    finding = findings_of(on=gpu(), data=data, precision=MIXED)["batch_not_multiple_of_8"]
    assert (finding.severity, finding.pointer) == ("warning", "/data/batch_size")
    assert finding.data["nearest"] == [248, 256]
    assert "batch_not_multiple_of_8" not in findings_of(data=data)
    assert "batch_not_multiple_of_8" not in findings_of(data=DIGITS, precision=MIXED)


@pytest.mark.parametrize(("size", "nearest"), [(1, (8,)), (9, (8, 16)), (4090, (4088, 4096))])
def test_the_nearest_multiples_are_below_and_above_and_never_0(size, nearest):
    assert nearest_multiples(size) == nearest


# ---- Devices


@pytest.mark.parametrize(
    ("policy", "capability", "code"),
    [
        ("mixed_float16", (6, 1), "no_tensor_cores"),
        ("O2", (6, 1), "no_tensor_cores"),
        ("mixed_bfloat16", (7, 5), "bfloat16_without_tensor_cores"),
    ],
)
def test_a_gpu_too_old_for_the_policy_is_a_warning(findings_of, gpu, policy, capability, code):
    precision = {"policy": policy}
    assert findings_of(on=gpu(*capability), precision=precision)[code].severity == "warning"
    assert code not in findings_of(on=gpu(8, 0), precision=precision)


def test_float8_is_emulated_on_a_device_without_it(findings_of, cpu, gpu):
    precision = {"policy": "mixed_float8"}
    for device in (cpu, gpu(8, 0)):
        assert findings_of(on=device, precision=precision)["float8_emulated"].severity == "warning"
    assert "float8_emulated" not in findings_of(on=gpu(8, 9), precision=precision)
    assert "float8_emulated" not in findings_of(on=cpu, precision={"policy": "float32"})


def test_products_in_float8_need_multiples_of_16(findings_of, gpu):
    model = {"kind": "mlp", "hidden": [40, 48]}
    precision = {"policy": "mixed_float8"}
    findings = findings_of(on=gpu(), model=model, precision=precision)
    assert findings["dimension_not_multiple_of_16"].data["nearest"] == [32, 48]
    override = {"layers": "dense_1", "dtype": "bfloat16"}
    wide = findings_of(on=gpu(), model=model, precision=precision | {"overrides": [override]})
    assert "dimension_not_multiple_of_16" not in wide


@pytest.mark.parametrize(
    ("policy", "code"), [("mixed_float16", "float16_on_cpu"), ("bfloat16", "bfloat16_on_cpu")]
)
def test_a_cpu_without_the_instructions_is_a_warning(findings_of, cpu, policy, code):
    precision = {"policy": policy}
    assert findings_of(on=cpu, precision=precision)[code].data["device"] == "an old CPU"
    assert code not in findings_of(precision=precision)
    features = frozenset({"amx_bf16", "amx_fp16"})
    modern = type(cpu)("cpu", "a modern CPU", features=features)
    assert code not in findings_of(on=modern, precision=precision)


def test_a_job_for_a_gpu_where_no_machine_has_one_is_a_warning(findings_of, cpu, gpu):
    runtime = {"device": "gpu"}
    assert findings_of(on=cpu, runtime=runtime)["no_gpu"].pointer == "/runtime/device"
    assert "no_gpu" not in findings_of(on=gpu(), runtime=runtime)
    assert "no_gpu" not in findings_of(runtime=runtime)


def test_a_step_too_large_for_the_device_is_a_warning(findings_of, gpu):
    data = {"kind": "synthetic", "shape": [224, 224, 3], "batch_size": 1024}
    parts = {"model": {"kind": "resnet"}, "data": data}
    finding = findings_of(on=gpu(memory_bytes=2**30), **parts)["memory_exceeds_device"]
    assert finding.data["needed_bytes"] > finding.data["memory_bytes"] == 2**30
    assert "memory_exceeds_device" not in findings_of(on=gpu(memory_bytes=2**40), **parts)


def test_the_policy_that_auto_resolves_to_is_a_finding(findings_of, gpu):
    auto = {"policy": "auto"}
    assert findings_of(on=gpu(), precision=auto)["auto_policy"].data["policies"] == {
        "a GPU": "mixed_bfloat16"
    }
    assert findings_of(precision=auto)["auto_policy"].data["policies"] == {}
    assert "auto_policy" not in findings_of(on=gpu(), precision=MIXED)


def test_the_memory_of_an_optimizer_of_a_package_is_unknown(findings_of):
    optimizer = {"kind": "package", "package": "own", "name": "a"}
    finding = findings_of(optimizer=optimizer)["optimizer_slots_unknown"]
    assert (finding.severity, finding.pointer) == ("info", "/optimizer")
    assert finding.data["trainable_parameters"] == 64 * 16 + 16 + 16 * 10 + 10
    assert "4,840 bytes for each of them" in finding.message
    assert "optimizer_slots_unknown" not in findings_of(optimizer={"kind": "adam"})
