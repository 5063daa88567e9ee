import pytest

from ampspec.api.study_requests import CapacityOptions, PrecisionOptions
from ampspec.jobs import JobSpec
from ampspec.precision.devices import DeviceInfo
from ampspec.studies.capacity.capacity import CapacityKind
from ampspec.studies.capacity.memory_model import memory_model
from ampspec.studies.plan import StudyContext
from ampspec.studies.precision.policies import policies_to_study, policy_sections
from ampspec.studies.precision.precision import PrecisionKind

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
    question = StudyContext(document, PrecisionOptions(seeds=2), ("tf32", "mixed_bfloat16"))
    jobs = PrecisionKind().jobs(question, {})[:3]
    assert [job.key for job in jobs] == ["float32/seed-0", "tf32/seed-0", "mixed_bfloat16/seed-0"]
    sections = [JobSpec.parse(job.document(question, "s")).precision for job in jobs]
    assert [(section.policy, section.tf32) for section in sections] == [
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
    question = StudyContext(document, PrecisionOptions(seeds=2, steps=3), policies)
    jobs = PrecisionKind().jobs(question, {})
    specs = [JobSpec.parse(job.document(question, "s")) for job in jobs]
    assert [spec.train.seed for spec in specs] == [5, 5, 5, 6, 6, 6]
    assert {spec.train.steps for spec in specs} == {3}
    assert [spec.precision.policy for spec in specs[:3]] == ["float32", *policies]
    assert [spec.loss_scale.mode for spec in specs[:3]] == ["none", "dynamic", "none"]


def test_the_model_of_memory_agrees_with_the_preflight_at_other_batches():
    from ampspec.preflight import preflight

    model = memory_model(SPEC, "mixed_float16")
    spec = JobSpec.parse({**SPEC, "precision": {"policy": "mixed_float16"}})
    assert model.total(64) == preflight(spec).figures.memory["mixed_float16"].total
    assert memory_model(SPEC, "mixed_float8").total(64) > 0
    most = model.largest_batch(10**6)
    assert most % 8 == 0
    assert model.total(most) <= 0.9e6 < model.total(most + 8)
    assert model.largest_batch(10) == 0
