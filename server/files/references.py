"""The files that specs name by their SHA-256: new jobs keep them."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from ampspec.documents.problems import format_value
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.models.model import Bundle
from ampspec.references.stored_files import DIGEST_PREFIX, FileKind, digest_of
from store.files import project_files
from store.files.project_files import FileKey


def runs_custom_code(spec: JobSpec) -> bool:
    """Whether a job of this spec runs Python code of its user."""
    return isinstance(spec.model, Bundle)


def files_of(spec: JobSpec) -> dict[str, tuple[FileKind, str]]:
    """The kind and SHA-256 of each file that a spec names, by its JSON pointer."""
    file_by_pointer = {}
    if isinstance(spec.model, Bundle):
        file_by_pointer["/model/bundle"] = (FileKind.BUNDLE, digest_of(spec.model.bundle))
    if spec.init is not None and spec.init.weights is not None:
        file_by_pointer["/init/weights"] = (FileKind.WEIGHTS, digest_of(spec.init.weights))
    return file_by_pointer


def lock_files(session: Session, jobs: Sequence[tuple[JobSpec, str]]) -> None:
    """Lock the files of new jobs, each a spec and its project, until the commit.

    Raises SpecValidationError if a project does not have one.
    """
    pointers = {key: pointer for spec, project in jobs for pointer, key in _keys(spec, project)}
    for key in sorted(pointers.keys() - project_files.lock(session, pointers)):
        expected = f"a {key.kind} of the project {key.project}, which is uploaded first"
        received = format_value(f"{DIGEST_PREFIX}{key.sha256}")
        raise SpecValidationError([Problem(pointers[key], "no_such_file", expected, received)])


def record_files(session: Session, jobs: Sequence[tuple[JobSpec, str, str]]) -> None:
    """Keep the locked files of new jobs, each a spec, its project and its id."""
    project_files.add_job_files(
        session,
        [(job_id, key) for spec, project, job_id in jobs for _, key in _keys(spec, project)],
    )


def _keys(spec: JobSpec, project: str) -> list[tuple[str, FileKey]]:
    return [
        (pointer, FileKey(project, *kind_and_digest))
        for pointer, kind_and_digest in files_of(spec).items()
    ]
