"""The spec of a clone: that of another job, with some fields changed."""

from collections.abc import Mapping
from typing import Any, Final

from ampspec.data.stored_split import with_split_seed
from ampspec.documents.assignments import with_values
from ampspec.jobs import JobSpec, SpecValidationError
from store import tables

DERIVED_FIELDS: Final = ("loss_scale", "name")
"""Fields of a spec whose default depends on other fields."""
KINDS: Final = ("kind", "mode")
"""Fields that name the kind of their section."""


def clone_document(job: tables.Job, changes: Mapping[str, Any]) -> Any:
    """The spec of a job with its later edits, and with the value of each dotted path replaced.

    Fields that had their derived default are left out, so that they are derived again: a clone
    in float32 has no loss scale. So are the defaults of a section whose kind changes. Raises
    SpecValidationError for a path that does not exist.
    """
    runtime = {**job.spec["runtime"], "priority": job.priority}
    edited = {
        **with_split_seed(job.spec),
        "name": job.name,
        "labels": job.labels,
        "runtime": runtime,
    }
    document = _without_derived_fields(edited)
    for path, value in changes.items():
        *section, field = path.split(".")
        if section and field in KINDS:
            document = _without_section_defaults(document, section, field, value)
    return with_values(document, changes)


def _without_derived_fields(document: dict[str, Any]) -> dict[str, Any]:
    for name in DERIVED_FIELDS:
        shorter = {key: value for key, value in document.items() if key != name}
        if _with_defaults(shorter).get(name) == document[name]:
            document = shorter
    return document


def _without_section_defaults(
    document: dict[str, Any], path: list[str], field: str, kind: Any
) -> dict[str, Any]:
    """The document without the defaults of the section at `path`, unless its kind stays."""
    section = _at(document, path)
    if not isinstance(section, dict) or section.get(field) in (None, kind):
        return document
    only_kind = {field: section[field]}
    defaults = _at(_with_defaults(with_values(document, {".".join(path): only_kind})), path)
    if not isinstance(defaults, dict):  # its kind alone is not valid
        return document
    kept = {key: value for key, value in section.items() if defaults.get(key) != value}
    shorter: dict[str, Any] = with_values(document, {".".join(path): {**kept, **only_kind}})
    return shorter


def _at(document: Any, path: list[str]) -> Any:
    """The value at a path; None if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _with_defaults(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every default filled in; empty if this version does not accept it."""
    try:
        return JobSpec.parse(document).to_json()
    except SpecValidationError:
        return {}
