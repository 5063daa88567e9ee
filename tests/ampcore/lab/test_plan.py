import pytest

from ampcore.api.study_requests import CapacityOptions, PrecisionOptions
from ampcore.lab.capacity import CapacityKind
from ampcore.lab.memory_model import memory_model
from ampcore.lab.plan import JobResult, Question
from ampcore.lab.policies import policies_to_study, policy_sections
from ampcore.lab.precision import PrecisionKind
from ampcore.spec import JobSpec, Reason, State
from ampcore.spec.devices import DeviceInfo

SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits", "batch_size": 64}}
H100 = DeviceInfo("gpu", compute_capability=(9, 0), memory_bytes=2**30)
A100 = DeviceInfo("gpu", compute_capability=(8, 0), memory_bytes=2**30)
V100 = DeviceInfo("gpu", compute_capability=(7, 0))
CPU = DeviceInfo("cpu")


@pytest.mark.parametrize(
    ("devices", "policies"),
    [
        ([H100], ("mixed_bfloat16", "mixed_float16", "mixed_float8")),
        ([CPU, H100], ("mixed_bfloat16", "mixed_float16", "mixed_float8")),
        ([DeviceInfo("gpu")], ("mixed_bfloat16", "mixed_float16")),
        ([A100], ("mixed_bfloat16", "mixed_float16")),
        ([V100], ("mixed_float16",)),
        ([CPU], ("mixed_bfloat16", "mixed_float16")),
        ([], ("mixed_bfloat16", "mixed_float16")),
    ],
)
def test_the_default_policies_are_those_that_the_devices_run(devices, policies):
    assert policies_to_study(None, devices) == policies


def test_auto_is_resolved_and_policies_are_studied_once():
    assert policies_to_study(["auto", "mixed_float16", "float32"], [V100]) == ("mixed_float16",)
    # Emulated where it is asked for by name.
    assert policies_to_study(["mixed_float8"], [CPU]) == ("mixed_float8",)
    question = CapacityKind().policies(CapacityOptions(policies=["O2"]), [A100])
    assert question == ("O2",)
    assert CapacityKind().policies(CapacityOptions(), [V100]) == ("float32", "mixed_float16")


@pytest.mark.parametrize(
    ("devices", "has_it"), [([H100], True), ([CPU, A100], True), ([V100], False), ([CPU], False)]
)
def test_tf32_is_studied_by_default_on_gpus_that_have_it(devices, has_it):
    found = PrecisionKind().policies(PrecisionOptions(), devices)
    assert (found[0] == "tf32") is has_it
    assert PrecisionKind().policies(PrecisionOptions(policies=["O2"]), devices) == ("O2",)


def test_beside_tf32_the_reference_is_without_it():
    document = {**SPEC, "precision": {"policy": "mixed_bfloat16"}}
    question = Question(document, PrecisionOptions(seeds=2), ("tf32", "mixed_bfloat16"))
    jobs = PrecisionKind().jobs(question, {})[:3]
    assert [job.key for job in jobs] == ["float32/seed-0", "tf32/seed-0", "mixed_bfloat16/seed-0"]
    sections = [JobSpec.parse(job.document(question, "s")).precision for job in jobs]
    assert [(one.policy, one.tf32) for one in sections] == [
        ("float32", False),
        ("float32", True),
        ("mixed_bfloat16", True),
    ]
    assert memory_model(SPEC, "tf32") == memory_model(SPEC, "float32")


def test_float32_forbids_tf32_where_the_spec_does():
    document = {**SPEC, "precision": {"policy": "mixed_float16", "tf32": False}}
    assert policy_sections(document, "float32")["precision"] == {"policy": "float32", "tf32": False}


def test_overrides_stay_except_under_float32():
    overrides = [{"layers": "dense", "dtype": "float32"}]
    document = {**SPEC, "precision": {"policy": "mixed_float16", "overrides": overrides}}
    assert policy_sections(document, "mixed_bfloat16")["precision"]["overrides"] == overrides
    assert policy_sections(document, "float32") == {"precision": {"policy": "float32"}}


@pytest.mark.parametrize(
    ("policy", "given", "expected"),
    [
        ("float32", {"mode": "dynamic", "initial": 8.0}, {"mode": "none"}),
        ("mixed_bfloat16", {"mode": "fixed"}, {"mode": "none"}),
        ("mixed_float16", {"mode": "fixed"}, {"mode": "fixed"}),
        ("mixed_float16", {"mode": "none"}, {"mode": "dynamic"}),
    ],
)
def test_a_loss_scale_is_used_only_where_layers_compute_in_float16(policy, given, expected):
    assert policy_sections({**SPEC, "loss_scale": given}, policy)["loss_scale"] == expected


def test_every_planned_job_is_a_valid_spec_with_the_same_seed_for_all_policies():
    document = {**SPEC, "train": {"seed": 5}, "loss_scale": {"mode": "dynamic"}}
    policies = ("mixed_float16", "mixed_float8")
    question = Question(document, PrecisionOptions(seeds=2, steps=3), policies)
    jobs = PrecisionKind().jobs(question, {})
    specs = [JobSpec.parse(job.document(question, "s")) for job in jobs]
    assert [spec.train.seed for spec in specs] == [5, 5, 5, 6, 6, 6]
    assert {spec.train.steps for spec in specs} == {3}
    assert [spec.precision.policy for spec in specs[:3]] == ["float32", *policies]
    assert [spec.loss_scale.mode for spec in specs[:3]] == ["none", "dynamic", "none"]


def test_the_model_of_memory_agrees_with_the_preflight_at_other_batches():
    from ampcore.preflight import preflight

    model = memory_model(SPEC, "mixed_float16")
    spec = JobSpec.parse({**SPEC, "precision": {"policy": "mixed_float16"}})
    assert model.total(64) == preflight(spec).figures.memory["mixed_float16"].total
    assert memory_model(SPEC, "mixed_float8").total(64) > 0
    most = model.largest_batch(10**6)
    assert most % 8 == 0
    assert model.total(most) <= 0.9e6 < model.total(most + 8)
    assert model.largest_batch(10) == 0


def searched(fits, **more):
    """The batches that a search tries, if `fits` says which ones do not die of memory."""
    device, memory = more.pop("device", "gpu"), more.pop("memory_bytes", 2**20)
    options = CapacityOptions(policies=["mixed_float16"], **more)
    question = Question(SPEC, options, ("mixed_float16",), device, memory)
    kind, results = CapacityKind(), {}
    while new := [job for job in kind.jobs(question, results) if job.key not in results]:
        for job in new:
            failed = {"state": State.FAILED, "reason": Reason.OUT_OF_MEMORY}
            ended = {"state": State.SUCCEEDED} if fits(job.changes["data.batch_size"]) else failed
            results[job.key] = JobResult(job.key, **ended)
    return [int(key.rpartition("-")[2]) for key in results], kind.answer(question, results)


@pytest.mark.parametrize("largest", [8, 16, 264, 1000, 1424])
def test_the_search_finds_the_largest_multiple_of_8(largest):
    tried, answer = searched(lambda batch: batch <= largest, resolution=0)
    [policy] = answer.policies
    assert policy.largest_batch == largest
    assert policy.smallest_failed in (largest + 8, None)
    assert len(tried) <= 20


def test_the_search_starts_at_the_prediction_and_stops_close_enough():
    tried, answer = searched(lambda batch: batch <= 500, resolution=0.1)
    [policy] = answer.policies
    assert tried[0] == min(policy.predicted, 1432)
    assert policy.largest_batch <= 500 < policy.smallest_failed
    assert policy.smallest_failed - policy.largest_batch <= 0.1 * policy.largest_batch


def test_no_batch_fits():
    _, answer = searched(lambda batch: False)
    assert answer.policies[0].largest_batch is None
    assert answer.policies[0].explanation == "Not even a batch of 8 fits."


def test_a_policy_that_overflows_has_enough_memory_and_the_answer_says_so():
    options = CapacityOptions(policies=["mixed_float16"], max_batch=64)
    question, kind = Question(SPEC, options, ("mixed_float16",), "gpu", 2**30), CapacityKind()
    failed = JobResult("j", State.FAILED, reason=Reason.NON_FINITE_RESULT)
    results: dict[str, JobResult] = {}
    while new := [job.key for job in kind.jobs(question, results) if job.key not in results]:
        results |= dict.fromkeys(new, failed)
    [policy] = kind.answer(question, results).policies
    assert (policy.largest_batch, policy.limited_by) == (64, "max_batch")
    assert "does not work out: job j is failed (non_finite_result)" in policy.explanation


def test_a_cpu_never_tries_more_than_the_prediction():
    tried, answer = searched(lambda batch: True, device="cpu", memory_bytes=100_000)
    [policy] = answer.policies
    assert policy.predicted < 1432
    assert max(tried) == policy.predicted == policy.largest_batch
    assert policy.limited_by == "memory"


def test_the_data_limits_the_batch():
    _, answer = searched(lambda batch: True, max_batch=4096)
    [policy] = answer.policies
    assert (policy.largest_batch, policy.limited_by) == (1432, "data")
