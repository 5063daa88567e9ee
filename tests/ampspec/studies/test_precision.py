"""What a study of precision says about speed, from planted throughputs of three pairs of jobs."""

import pytest

from ampspec.api.study_requests import PrecisionOptions
from ampspec.jobs import State
from ampspec.studies.plan import JobResult, StudyContext
from ampspec.studies.precision.precision import PrecisionKind

SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits", "batch_size": 64}}
ACCURACIES = [0.95, 0.954, 0.949]


def answer(speeds, other="mixed_bfloat16", has_tf32=False):
    question = StudyContext(SPEC, PrecisionOptions(), (other,))
    results = {}
    for seed, (accuracy, speed) in enumerate(zip(ACCURACIES, speeds, strict=True)):
        for policy, examples_per_s in (("float32", 100.0), (other, speed)):
            results[f"{policy}/seed-{seed}"] = JobResult(
                "j",
                State.SUCCEEDED,
                metrics={"val_accuracy": accuracy},
                summary={
                    "median_examples_per_s": examples_per_s,
                    "tf32": has_tf32 and policy == "tf32",
                },
            )
    return PrecisionKind().answer(question, results)


@pytest.mark.parametrize(
    ("speeds", "summary"),
    [
        (
            (150.0, 160.0, 140.0),
            "Use mixed_bfloat16: as accurate as float32, 1.50 × the speed of float32 (1.40 to 1.60 "
            "in the pairs). (mixed_bfloat16: equal)",
        ),
        (
            (90.0, 160.0, 140.0),
            "mixed_bfloat16 can be used: it is as accurate as float32. The pairs do not tell "
            "whether it is faster: 1.26 × the speed of float32 (0.90 to 1.60 in the pairs). "
            "(mixed_bfloat16: equal)",
        ),
        (
            (80.0, 110.0, 80.0),
            "Stay with float32: no policy is known to be faster, mixed_bfloat16 has 0.89 × the "
            "speed of float32 (0.80 to 1.10 in the pairs). (mixed_bfloat16: equal)",
        ),
        (
            (80.0, 80.0, 80.0),
            "Stay with float32: no policy is faster, mixed_bfloat16 has 0.80 × the speed of "
            "float32 (0.80 to 0.80 in the pairs). (mixed_bfloat16: equal)",
        ),
    ],
)
def test_the_speed_up_comes_with_its_range_over_the_seeds(speeds, summary):
    policy_answer = answer(speeds)
    assert policy_answer.summary == summary
    assert policy_answer.policies[1].speedup_range == pytest.approx(
        [min(speeds) / 100, max(speeds) / 100]
    )
    assert policy_answer.policies[0].speedup_range is None


@pytest.mark.parametrize("has_tf32", [True, False])
def test_tf32_is_a_policy_of_its_own(has_tf32):
    policy_answer = answer((150.0, 160.0, 140.0), "tf32", has_tf32)
    tf32 = policy_answer.policies[1]
    assert (tf32.verdict, tf32.write) == (
        "equal",
        {"precision": {"policy": "float32", "tf32": True}},
    )
    assert policy_answer.policies[0].write == {"precision": {"policy": "float32", "tf32": False}}
    assert policy_answer.recommended == ("tf32" if has_tf32 else "float32")
    assert ("No job ran on a device with TF32" in tf32.explanation) is not has_tf32
