"""Of which rank the examples of a skipped step are, when each rank has looked at its own."""

from collections.abc import Mapping
from typing import Any, Final

from ampcore.diagnostics.steps.overflow_cause import OverflowCause
from ampcore.distributed import Communicator
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.scale_events import OverflowCauses

WITHOUT_CAUSE: Final = (OverflowCause.NOT_REPRODUCED.value, OverflowCause.UNKNOWN.value)
"""What a rank finds whose own gradients were finite, or that could not repeat the step."""


def overflow_causes_of_ranks(communicator: Communicator, causes: OverflowCauses) -> OverflowCauses:
    """The cause that a rank has found, with its number and its examples.

    Every rank calls it after it has explained its own part of the last step of a block.

    Args:
        communicator: The ranks of the job.
        causes: What this rank has found, by step.
    """
    if communicator.size == 1:
        return causes
    reports = communicator.all_gather_object(
        [[step, json_safe(facts)] for step, facts in causes.items()]
    )
    steps = [dict(report) for report in reports]
    return {step: _of_first_with_cause([by_step[step] for by_step in steps]) for step in causes}


def _of_first_with_cause(facts: list[Mapping[str, Any]]) -> dict[str, Any]:
    with_cause = [
        rank for rank, cause in enumerate(facts) if cause.get("diagnosis") not in WITHOUT_CAUSE
    ]
    if not with_cause:
        sentence = (
            "On every rank alone the gradients are finite again: their sum over the ranks, or "
            f"their exchange, was not. Rank 0: {facts[0].get('sentence', '')}"
        )
        return {**facts[0], "ranks": [], "sentence": sentence}
    first = with_cause[0]
    sentence = f"Rank {first}: {facts[first].get('sentence', '')}"
    return {**facts[first], "rank": first, "ranks": with_cause, "sentence": sentence}
