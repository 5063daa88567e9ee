"""What a study of precision says about speed, from planted throughputs of three pairs of jobs."""

import pytest

from ampcore.api.studies import PrecisionOptions
from ampcore.lab.plan import JobResult, Question
from ampcore.lab.precision import PrecisionKind
from ampcore.spec import State

SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits", "batch_size": 64}}
ACCURACIES = [0.95, 0.954, 0.949]


def answer(speeds):
    question = Question(SPEC, PrecisionOptions(), ("mixed_bfloat16",))
    results = {}
    for seed, (accuracy, speed) in enumerate(zip(ACCURACIES, speeds, strict=True)):
        for policy, examples_per_s in (("float32", 100.0), ("mixed_bfloat16", speed)):
            results[f"{policy}/seed-{seed}"] = JobResult(
                "j",
                State.SUCCEEDED,
                metrics={"val_accuracy": accuracy},
                summary={"median_examples_per_s": examples_per_s},
            )
    return PrecisionKind().answer(question, results).policies[1]


@pytest.mark.parametrize(
    ("speeds", "speedup", "text"),
    [
        ((150.0, 160.0, 140.0), 1.498, "Its speed-up was between 1.40 and 1.60."),
        (
            (90.0, 160.0, 140.0),
            1.263,
            "Its speed-up was between 0.90 and 1.60, which does not tell whether it is faster.",
        ),
    ],
)
def test_the_speed_up_comes_with_its_range_over_the_seeds(speeds, speedup, text):
    found = answer(speeds)
    assert found.speedup == pytest.approx(speedup, abs=0.001)
    assert found.explanation.endswith(text)
