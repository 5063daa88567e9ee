"""The report of a trace: phases, dtypes, operations, kernels, and what is not delivered."""

import dataclasses
import json

import pytest

from ampcore.profile.executed import ExecutedOperation
from ampcore.profile.findings import Not16BitReason
from ampcore.profile.operations import ProfileContext, ProfiledLayer
from ampcore.profile.report import build_report
from ampcore.profile.report_text import report_lines
from ampcore.profile.trace import EventKind, trace_of

BODY = "while/body/_1/while"
CPU = ProfileContext(
    policy="mixed_bfloat16",
    promised_dtype="bfloat16",
    engine="graph",
    device={"kind": "cpu", "name": "a processor"},
    fast_dtypes=("float32", "bfloat16"),
    first_step=10,
    steps=2,
    wall_s=0.040,
    layers=(
        ProfiledLayer("dense", "bfloat16", (64, 10)),
        ProfiledLayer("wide", "bfloat16", (64, 128)),
        ProfiledLayer("logits", "float32", (128, 10)),
    ),
)
GPU = dataclasses.replace(
    CPU,
    policy="mixed_float16",
    promised_dtype="float16",
    device={"kind": "gpu", "name": "NVIDIA H100"},
    fast_dtypes=("float32", "float16", "bfloat16"),
)


def executed(name, dtype, **facts):
    return ExecutedOperation(name, "MatMul", dtype, is_matrix=True, **facts)


def with_operations(context, *operations):
    return dataclasses.replace(context, operations=operations)


def report_of(space, context):
    return build_report(trace_of(space), context)


def by(rows, key):
    return {row[key]: row for row in rows}


def reasons(report):
    return [finding["reason"] for finding in report["findings"]]


def test_phases_add_up_to_the_time_of_the_operations(space, host):
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:MatMul", 0, 6)
    host.add("t1", "while/body/_1/gradient_tape/while/phase.forward/dense/m:MatMul", 10, 12)
    host.add("t2", f"{BODY}/phase.update/adam/ResourceApplyAdam:ResourceApplyAdam", 10, 2)
    phases = by(report_of(space, CPU)["phases"], "phase")
    assert {name: phase["time_s"] for name, phase in phases.items()} == pytest.approx(
        {"forward": 0.003, "backward": 0.006, "update": 0.001}
    )
    assert phases["backward"]["share"] == pytest.approx(0.6)


def test_operations_of_an_evaluation_are_no_part_of_a_step(space, host):
    host.add("python", "phase.evaluation", 20, 10)
    host.add("t1", "while/body/_1/while/dense/MatMul:MatMul", 21, 5)
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:MatMul", 0, 4)
    report = report_of(space, CPU)
    phases = by(report["phases"], "phase")
    assert phases["evaluation"]["time_s"] == pytest.approx(0.005)
    assert phases["evaluation"]["share"] is None
    assert phases["forward"]["share"] == 1
    assert [row["phase"] for row in report["operations"]] == ["forward"]


def test_the_self_time_leaves_out_operations_inside(space, host):
    host.add("t1", f"{BODY}/phase.forward/dense/Outer:Outer", 0, 10)
    host.add("t1", f"{BODY}/phase.forward/dense/Inner:Inner", 2, 3)
    host.add("t1", f"{BODY}/phase.forward/dense/Later:Later", 10, 1)
    rows = by(report_of(space, CPU)["operations"], "type")
    assert rows["Outer"]["total_s"] == pytest.approx(0.005)
    assert rows["Outer"]["self_s"] == pytest.approx(0.0035)
    assert rows["Later"]["self_s"] == pytest.approx(0.0005)


def test_calls_in_several_frames_are_one_operation(space, host):
    host.add("t1", "while/body/_1/while/phase.forward/dense/MatMul:MatMul", 0, 2)
    host.add("t1", "while/body/_7/while/phase.forward/dense/MatMul:MatMul", 5, 4)
    [row] = report_of(space, CPU)["operations"]
    assert (row["calls"], row["average_s"]) == (1, pytest.approx(0.003))


def test_onednn_in_bfloat16_is_in_16_bit_and_a_layer_in_float32_was_never_promised(space, host):
    forward = "while/body/while/phase.forward"
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:_MklMatMul", 0, 6)
    host.add("t1", f"{BODY}/phase.forward/logits/MatMul:_MklMatMul", 6, 2)
    context = with_operations(
        CPU,
        executed(f"{forward}/dense/MatMul", "bfloat16", native=True),
        executed(f"{forward}/logits/MatMul", "float32", casts_back=True),
    )
    report = report_of(space, context)
    shares = report["sixteen_bit"]
    assert (shares["of_promised"], shares["of_matrices"]) == (1, pytest.approx(0.75))
    assert shares["tensor_cores"] is None
    assert report["findings"] == []


@pytest.mark.parametrize(
    ("facts", "fast", "reason"),
    [
        ({"dtype": "float32", "casts_back": True}, ("bfloat16",), Not16BitReason.CAST_BACK),
        ({"dtype": "float32"}, ("bfloat16",), Not16BitReason.FLOAT32_INPUT),
        ({"dtype": "bfloat16", "native": False}, ("bfloat16",), Not16BitReason.MISSING_KERNEL),
        ({"dtype": "bfloat16", "native": None}, (), Not16BitReason.MISSING_KERNEL),
    ],
)
def test_what_a_policy_promises_and_a_kernel_does_not_deliver_has_a_reason(
    space, host, facts, fast, reason
):
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:MatMul", 0, 9)
    host.add("t1", f"{BODY}/phase.forward/wide/MatMul:MatMul", 9, 1)
    context = dataclasses.replace(
        with_operations(
            CPU,
            executed("while/body/while/phase.forward/dense/MatMul", **facts),
            executed("while/body/while/phase.forward/wide/MatMul", "bfloat16", native=bool(fast)),
        ),
        fast_dtypes=("float32", *fast),
    )
    report = report_of(space, context)
    assert reasons(report) == [reason]
    [finding] = report["findings"]
    assert "while/body/while/phase.forward/dense/MatMul" in finding["operations"]
    assert finding["share"] == pytest.approx(0.9 if fast else 1)
    assert by(report["dtypes"], "dtype")["float32"]["share"] == pytest.approx(finding["share"])


def test_a_run_in_float32_promises_nothing(space, host):
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:MatMul", 0, 9)
    context = dataclasses.replace(
        with_operations(CPU, executed("while/body/while/phase.forward/dense/MatMul", "float32")),
        policy="float32",
        promised_dtype=None,
    )
    report = report_of(space, context)
    assert report["findings"] == []
    assert report["sixteen_bit"]["of_promised"] is None


def test_a_small_share_is_no_finding(space, host):
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:MatMul", 0, 1)
    host.add("t1", f"{BODY}/phase.forward/wide/MatMul:MatMul", 1, 99)
    context = with_operations(
        CPU,
        executed("while/body/while/phase.forward/dense/MatMul", "float32"),
        executed("while/body/while/phase.forward/wide/MatMul", "bfloat16", native=True),
    )
    assert report_of(space, context)["findings"] == []


def test_on_a_gpu_kernels_decide_and_the_host_does_not_count(space, host, gpu):
    name = f"{BODY}/phase.forward/wide/MatMul"
    host.add("t1", f"{name}:MatMul", 0, 50)
    gpu.add("Stream #13(Compute)", "nvjet_hsh_128x64", 1, 3, tf_op=f"{name}:MatMul")
    gpu.add("Stream #13(Compute)", "splitKreduce_kernel", 4, 1, tf_op=f"{name}:MatMul")
    gpu.add("XLA Ops", "ignored", 1, 3)
    context = with_operations(
        GPU, executed("while/body/while/phase.forward/wide/MatMul", "float16")
    )
    report = report_of(space, context)
    [row] = report["operations"]
    assert row["tensor_cores"] is True
    assert row["total_s"] == pytest.approx(0.002)
    assert report["sixteen_bit"]["tensor_cores"] == 1
    kernels = by(report["kernels"], "name")
    assert kernels["nvjet_hsh_128x64"]["tensor_cores"] is True
    assert kernels["nvjet_hsh_128x64"]["dtype"] == "float16"
    assert kernels["splitKreduce_kernel"]["tensor_cores"] is False
    assert reasons(report) == []


@pytest.mark.parametrize(("layer", "reason"), [("dense", "bad_size"), ("wide", "no_tensor_cores")])
def test_a_16_bit_product_without_tensor_cores_has_a_bad_size_or_another_kernel(
    space, gpu, layer, reason
):
    name = f"while/body/while/phase.forward/{layer}/MatMul"
    gpu.add("Stream #1", "cutlass_80_simt_hgemm_128x64_8x5_nn_align1", 0, 5, tf_op=f"{name}:MatMul")
    report = report_of(space, with_operations(GPU, executed(name, "float16")))
    assert reasons(report) == [reason]
    assert report["sixteen_bit"]["tensor_cores"] == 0
    if reason == "bad_size":
        assert "sizes (10)" in report["findings"][0]["message"]


def test_a_kernel_whose_name_tells_nothing_is_not_said_to_miss_tensor_cores(space, gpu):
    name = "while/body/while/phase.forward/wide/MatMul"
    gpu.add("Stream #1", "fusion_12", 0, 5, tf_op=f"{name}:MatMul")
    report = report_of(space, with_operations(GPU, executed(name, "float16")))
    assert report["operations"][0]["tensor_cores"] is None
    assert report["sixteen_bit"]["tensor_cores"] is None
    assert reasons(report) == []


def test_a_float32_kernel_shows_through_a_policy_of_16_bit(space, gpu):
    name = "while/body/while/phase.forward/wide/MatMul"
    gpu.add("Stream #1", "ampere_sgemm_128x128_nt", 0, 5, tf_op=f"{name}:MatMul")
    report = report_of(space, with_operations(GPU, executed(name, "float16")))
    assert report["operations"][0]["computed_in"] == "float32"
    assert report["sixteen_bit"]["of_promised"] == 0
    assert reasons(report) == ["missing_kernel"]


def test_copies_and_unnamed_kernels_are_kept(space, gpu):
    gpu.add("Stream #2(MemcpyH2D)", "MemcpyH2D", 0, 1, memcpy_details="size:8")
    gpu.add("Stream #1", "loop_convert_fusion", 2, 1)
    report = report_of(space, GPU)
    assert {row["name"] for row in report["operations"]} == {"MemcpyH2D", "loop_convert_fusion"}


def test_an_empty_trace_has_a_report(space):
    report = report_of(space, CPU)
    assert report["phases"] == report["operations"] == report["findings"] == []
    assert report["step_s"] == pytest.approx(0.020)
    assert set(report["sixteen_bit"].values()) == {None}
    json.dumps(report)


def test_the_text_names_shares_operations_and_the_warning(space, host):
    host.add("t1", f"{BODY}/phase.forward/dense/MatMul:MatMul", 0, 9)
    context = with_operations(
        CPU, executed("while/body/while/phase.forward/dense/MatMul", "float32", casts_back=True)
    )
    text = "\n".join(report_lines(report_of(space, context)))
    assert "steps        10 to 11, 20 ms each" in text
    assert "in 16 bit    0.0% of the time of the products" in text
    assert " ".join(["forward", "4.5 ms", "100.0%", "██"]) in " ".join(text.split())
    assert "dense/MatMul" in text
    assert "no: cast_back" in text
    assert "warning: 100% of the time" in text


def test_a_context_survives_its_json_form():
    context = with_operations(CPU, executed("a", "float32", casts_back=True))
    copy = ProfileContext.from_json(json.loads(json.dumps(context.to_json())))
    assert json.dumps(copy.to_json()) == json.dumps(context.to_json())
    assert copy.layers[0] == context.layers[0]


def test_control_flow_and_thread_pools_are_no_operations(space, host):
    host.add("t1", "while:While", 0, 9)
    host.add("t1", "ThreadpoolListener::StartRegion", 0, 9)
    host.add("t1", "ExecutorState::Process", 0, 9)
    host.add("t1", "EagerLocalExecute: __inference_block_1", 0, 9)
    host.add("t1", "phase.input", 0, 9)
    assert [event.kind for event in trace_of(space).events] == [EventKind.SPAN]


def test_a_fused_operation_is_named_as_the_product_with_what_is_fused(space, host):
    name = "while/body/while/phase.forward/dense/Relu"
    fused = ("MatMul", "BiasAdd", "Relu")
    operation = ExecutedOperation(
        name, "_MklNativeFusedMatMul", "bfloat16", is_matrix=True, native=True, fused=fused
    )
    host.add("t1", f"{name}:_MklNativeFusedMatMul", 0, 4)
    context = ProfileContext.from_json(
        json.loads(json.dumps(with_operations(CPU, operation).to_json()))
    )
    [row] = report_of(space, context)["operations"]
    assert row["name"] == "while/body/while/phase.forward/dense/MatMul+BiasAdd+Relu"
    assert (row["layer"], row["phase"]) == ("dense", "forward")
