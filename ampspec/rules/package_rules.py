"""Rules about the installed package that a spec needs."""

from collections.abc import Iterator
from typing import Final

from ampspec.documents.problems import Parts, Problem, json_pointer
from ampspec.objectives.task import tasks_by_pointer
from ampspec.references.package import PackageReference

MAX_QUEUE_LENGTH: Final = 64
"""Maximum length of a job's queue and package name together."""


def package_references(parts: Parts) -> dict[str, PackageReference]:
    """By JSON pointer, the package entry points that the parts of a spec use."""
    every = {"/model": parts.get("model"), "/data": parts.get("data")}
    for pointer, task in tasks_by_pointer(parts.get("task")).items():
        every[f"{pointer}/loss"] = task.loss
        every |= {f"{pointer}/metrics/{n}": section for n, section in enumerate(task.metrics or ())}
    every["/optimizer"] = parts.get("optimizer")
    every |= {
        json_pointer(("optimizers", name)): section
        for name, section in (parts.get("optimizers") or {}).items()
    }
    return {pointer: part for pointer, part in every.items() if isinstance(part, PackageReference)}


def one_package(parts: Parts) -> Iterator[Problem]:
    """A job is routed to the workers of one package: a spec does not name several."""
    references = list(package_references(parts).items())
    for pointer, reference in references[1:]:
        first_pointer, first = references[0]
        if reference.package != first.package:
            yield Problem(
                f"{pointer}/package",
                "several_packages",
                f"{first.package}, the package of {first_pointer}: a job needs at most one package",
                reference.package,
            )


def package_fits_queue(parts: Parts) -> Iterator[Problem]:
    """The queue of a job for a package, `QUEUE/PACKAGE`, is not too long."""
    runtime = parts.get("runtime")
    queue = runtime.queue if runtime is not None else None
    first = next(iter(package_references(parts).values()), None)
    if first is not None and queue is not None:
        max_length = MAX_QUEUE_LENGTH - len(first.package) - 1
        if len(queue) > max_length:
            expected = f"at most {max_length} characters with the package {first.package}"
            yield Problem("/runtime/queue", "too_long", expected, queue)
