"""Refuse jobs with several ranks, which the library trains but no worker."""

from ampcore.spec import JobSpec, Problem, SpecValidationError


def check_ranks(spec: JobSpec) -> None:
    """Raise SpecValidationError for a job that no worker would train as it asks."""
    if spec.runtime.ranks != 1:
        field = "devices" if spec.runtime.devices != 1 else "workers"
        raise SpecValidationError(
            [
                Problem(
                    f"/runtime/{field}",
                    "not_available",
                    "1: this version of ampcore trains on one device",
                    str(getattr(spec.runtime, field)),
                )
            ]
        )
