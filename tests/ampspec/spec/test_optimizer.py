import pytest

from ampspec.jobs import JobSpec, SpecValidationError


def problems(schedule):
    document = {
        "model": {"kind": "mlp"},
        "data": {"kind": "digits"},
        "optimizer": {"kind": "sgd", "schedule": schedule},
    }
    with pytest.raises(SpecValidationError) as caught:
        JobSpec.parse(document)
    return {problem.pointer: problem for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("boundaries", "warmup_steps", "expected"),
    [
        ([3, 2], 0, "strictly increasing steps"),
        ([3, 3], 0, "strictly increasing steps"),
        ([4, 9], 5, "steps after the warm-up, 5 or greater"),
        ([], 0, "at least 1 items"),
    ],
)
def test_invalid_step_boundaries_are_refused_with_their_pointer(boundaries, warmup_steps, expected):
    mistakes = problems({"kind": "step", "boundaries": boundaries, "warmup_steps": warmup_steps})
    assert mistakes["/optimizer/schedule/boundaries"].expected == expected


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        ({"kind": "cosine", "final_fraction": 1.5}, "final_fraction"),
        ({"kind": "cosine", "end_step": 0}, "end_step"),
        ({"kind": "exponential", "decay_rate": 0.0}, "decay_rate"),
        ({"kind": "exponential", "decay_steps": 0}, "decay_steps"),
        ({"kind": "step", "boundaries": [1], "factor": 2.0}, "factor"),
        ({"kind": "constant", "warmup_steps": -1}, "warmup_steps"),
    ],
)
def test_numbers_out_of_bounds_are_refused_with_their_pointer(schedule, field):
    assert f"/optimizer/schedule/{field}" in problems(schedule)
