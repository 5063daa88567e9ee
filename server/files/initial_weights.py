"""Check the job whose trained weights a spec starts from."""

from typing import Final

from ampspec.documents.problems import format_value
from ampspec.jobs import JobSpec, Problem, SpecValidationError, State
from store.database import Database
from store.files import artifacts
from store.jobs import jobs

POINTER: Final = "/init/job"


def check_initial_weights(database: Database, spec: JobSpec, project: str) -> None:
    """Check that the weights of `init` have one source, and that a job has them.

    A spec that names no job costs no query.

    Raises SpecValidationError for a job that does not exist in the project, has not succeeded, or
    has no stored weights.
    """
    init = spec.init
    if init is None or init.weights is not None:
        return
    if init.job is None:
        _refuse("/init", "missing_source", "either job or weights", "neither")
        return
    with database.read() as session:
        job = jobs.get(session, init.job, project=project)
        if job is None:
            expected = f"a job of the project {project}"
            _refuse(POINTER, "no_such_job", expected, format_value(init.job))
        elif job.state != State.SUCCEEDED:
            received = f"{init.job}, which is {job.state}"
            _refuse(POINTER, "job_not_succeeded", "a job that has succeeded", received)
        elif artifacts.weights(session, job.id) is None:
            expected = (
                "a job with stored weights, as jobs of version 0.6 and later have; of others, "
                "upload the weights of the downloaded model"
            )
            _refuse(POINTER, "no_weights", expected, f"{init.job}, which has none")


def _refuse(pointer: str, code: str, expected: str, received: str) -> None:
    raise SpecValidationError([Problem(pointer, code, expected, received)])
