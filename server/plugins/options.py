"""Check what a spec names of packages, and its options, against what online workers announce."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from ampspec.documents.problems import closest_match, format_value
from ampspec.documents.text import join_names
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.references.package import PackageReference
from store import workers
from store.database import Database
from store.jobs import jobs

log = logging.getLogger(__name__)

MAX_NAMES: Final = 20


def check_packages(database: Database, spec: JobSpec) -> None:
    """Check what a spec names of packages by what the workers of its queue have announced.

    A spec that names no package costs no query. If no worker has the package, nothing is checked:
    the job waits for one, and its trainer checks the options.

    Raises SpecValidationError for names and options that every such worker would refuse.
    """
    references = spec.package_references()
    if not references:
        return
    with database.read() as session:
        announced = workers.packages_of_queue(session, jobs.queue_of(spec))
    problems = [
        problem
        for pointer, reference in references.items()
        for problem in _problems(pointer, reference, announced or ())
    ]
    if problems:
        raise SpecValidationError(problems)


def _problems(
    pointer: str, reference: PackageReference, announced: Sequence[dict[str, Any]]
) -> list[Problem]:
    of_package = [entry for entry in announced if entry.get("package") == reference.package]
    same_group = [entry for entry in of_package if entry.get("group") == reference.group]
    entries = [entry for entry in same_group if entry.get("name") == reference.name]
    if entries:
        # Workers may have different versions: what one of them accepts is accepted.
        return min((_option_problems(pointer, reference, entry) for entry in entries), key=len)
    if not of_package:
        return []
    names = sorted({str(entry.get("name")) for entry in same_group})
    listed = join_names(names, MAX_NAMES) or "none"
    expected = f"one of the {reference.group} of {reference.package}: {listed}"
    suggestion = closest_match(reference.name, names)
    received = format_value(reference.name)
    return [Problem(f"{pointer}/name", "unknown_value", expected, received, suggestion)]


def _option_problems(
    pointer: str, reference: PackageReference, entry: dict[str, Any]
) -> list[Problem]:
    # Importing it takes time and memory, which a server without packages does not need.
    from server.plugins.json_schema import NotChecked, schema_problems

    schema = entry.get("schema")
    if not isinstance(schema, dict):
        return []
    try:
        return schema_problems(schema, reference.options, f"{pointer}/options")
    except NotChecked as error:
        values = (reference.label, entry.get("version"), error)
        log.warning("the options of %s %s are left to the trainer: %s", *values)
        return []
