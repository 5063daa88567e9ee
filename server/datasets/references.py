"""Replace the dataset that a spec names by one version of it, which the job keeps."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy.orm import Session

from ampspec.documents.problems import closest_match, format_value
from ampspec.documents.text import first_names
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.references.dataset_reference import VersionReference
from server.datasets.described_data import options_of_version, problems_of_data
from store.database import Database
from store.files import datasets

POINTER: Final = "/data/dataset"
MAX_NAMES: Final = 1000


def reference_of(spec: JobSpec) -> VersionReference | None:
    """The dataset that a spec names, if it names one."""
    text = getattr(spec.data, "dataset", None)
    return VersionReference.parse(text) if text is not None else None


def pin_dataset(database: Database, spec: JobSpec, project: str) -> JobSpec:
    """The spec with `birds` replaced by its newest version, as in `birds@3`.

    Options of the format that are null become those of the version's description.

    A spec without a dataset costs no query. Raises SpecValidationError for an unknown one, and for
    one that the spec cannot be trained on.
    """
    reference = reference_of(spec)
    if reference is None:
        return spec
    with database.read() as session:
        version = datasets.find(session, project, reference)
        if version is None:
            raise SpecValidationError([_unknown(session, reference, project)])
        pinned = str(VersionReference(reference.name, version.number))
        changes = {"dataset": pinned} | options_of_version(spec.data, version)
        spec = spec.model_copy(update={"data": spec.data.model_copy(update=changes)})
        if problems := problems_of_data(spec, version, pinned):
            raise SpecValidationError(problems)
    return spec


def lock_datasets(session: Session, jobs: Iterable[tuple[JobSpec, str]]) -> None:
    """Lock the pinned versions of new jobs, each a spec and its project, until the commit.

    Raises SpecValidationError if one has been deleted since it was pinned.
    """
    pinned_versions = {
        (project, reference.name, reference.number)
        for spec, project in jobs
        if (reference := reference_of(spec)) is not None and reference.number is not None
    }
    if not pinned_versions:
        return
    for project, name, number in sorted(
        pinned_versions - datasets.lock_versions(session, pinned_versions)
    ):
        raise SpecValidationError([_unknown(session, VersionReference(name, number), project)])


def _unknown(session: Session, unknown: VersionReference, project: str) -> Problem:
    newest = datasets.find(session, project, VersionReference(unknown.name))
    if newest is not None:
        reference = str(VersionReference(unknown.name, newest.number))
        expected = f"a version of {unknown.name} (the newest is {reference})"
        return Problem(POINTER, "no_such_dataset", expected, format_value(str(unknown)), reference)
    names = datasets.names(session, project, limit=MAX_NAMES)
    expected = f"a dataset of the project {project} (it has {first_names(names) or 'none yet'})"
    suggestion = closest_match(unknown.name, names)
    return Problem(POINTER, "no_such_dataset", expected, format_value(str(unknown)), suggestion)
