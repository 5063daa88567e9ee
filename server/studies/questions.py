"""The question of a study: read from a request and from a row, with what is known of devices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from ampspec.api.study_requests import AnyStudy
from ampspec.documents.problems import closest_match, format_value, from_pydantic
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.models.model import Bundle
from ampspec.precision.devices import DeviceInfo, choose_device
from ampspec.studies.kinds import KINDS, OPTIONS, REQUESTS
from ampspec.studies.plan import PlannedJob, StudyContext
from server.errors import RequestInvalid
from store import studies, tables, workers


def parse_request(document: Any) -> AnyStudy:
    """The request in the body of POST /studies; its spec is not checked yet.

    Raises RequestInvalid with every mistake.
    """
    if not isinstance(document, dict):
        problem = Problem("", "wrong_type", "an object", format_value(document))
        raise RequestInvalid([problem])
    kind = document.get("kind")
    model = REQUESTS.get(kind) if isinstance(kind, str) else None
    if model is None:
        expected = f"one of {', '.join(REQUESTS)}"
        suggestion = closest_match(kind, REQUESTS)
        problem = Problem("/kind", "unknown_kind", expected, format_value(kind), suggestion)
        raise RequestInvalid([problem])
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise RequestInvalid(from_pydantic(error, model)) from None


def in_spec(error: SpecValidationError) -> SpecValidationError:
    """The error with pointers into the body of the request, which has the spec as a field."""
    return SpecValidationError(
        [
            Problem(
                f"/spec{problem.pointer}",
                problem.code,
                problem.expected,
                problem.received,
                problem.suggestion,
            )
            for problem in error.problems
        ]
    )


def make_question(
    session: Session, request: AnyStudy, spec: JobSpec, project: str
) -> StudyContext[Any]:
    """The question of a request whose valid spec is `spec`, with its data pinned."""
    document = dict(request.spec)
    if (dataset := getattr(spec.data, "dataset", None)) is not None:
        document["data"] = {**document["data"], "dataset": dataset}
    if (split_seed := getattr(spec.data, "split_seed", None)) is not None:
        document["data"] = {**document["data"], "split_seed": split_seed}
    devices = _devices(session, spec)
    kind = KINDS[request.kind]
    return StudyContext(
        document,
        request.options,
        kind.policies(request.options, devices),
        *_device_facts(devices),
        _memory_limit(session, spec),
        _measured_batches(session, spec, project),
    )


def with_device(session: Session, question: StudyContext[Any]) -> StudyContext[Any]:
    """The question with the device of a worker, if one has reported it since the creation."""
    device, memory_bytes = _device_facts(_devices(session, question.spec))
    return replace(
        question,
        device=device,
        device_memory_bytes=memory_bytes,
        memory_limit_bytes=_memory_limit(session, question.spec),
    )


def context_facts(question: StudyContext[Any]) -> dict[str, Any]:
    """The stored facts of a study besides its spec, options and policies."""
    return {
        "device": question.device,
        "device_memory_bytes": question.device_memory_bytes,
        "memory_limit_bytes": question.memory_limit_bytes,
        "measured_batches": dict(question.measured_batches),
    }


def question_of(study: tables.Study, planned: Mapping[str, Mapping[str, Any]]) -> StudyContext[Any]:
    """The question of a stored study, with the changes of the jobs planned so far by key."""
    options = OPTIONS[study.kind].model_validate(study.options)
    return StudyContext(study.spec, options, tuple(study.policies), **study.facts, planned=planned)


def _devices(session: Session, spec: JobSpec) -> list[DeviceInfo]:
    """The device that each online worker would train on."""
    machines = workers.online_devices(session)
    devices = (choose_device(machine, spec.runtime.device) for machine in machines)
    return [device for device in devices if device is not None]


def _device_facts(devices: Sequence[DeviceInfo]) -> tuple[str | None, int | None]:
    """The kind of the first device, and the memory of the smallest: any may get a job."""
    memory = [device.memory_bytes for device in devices if device.memory_bytes]
    return devices[0].kind if devices else None, min(memory) if memory else None


def _memory_limit(session: Session, spec: JobSpec) -> int | None:
    """The smallest limit of an online worker for the trainers of such a job; None: none known."""
    in_sandbox = isinstance(spec.model, Bundle)
    return min(workers.online_memory_limits(session, in_sandbox=in_sandbox), default=None)


def _measured_batches(session: Session, spec: JobSpec, project: str) -> dict[str, int]:
    """By policy: the largest batch in the newest study of capacity of the same model."""
    model = spec.to_json()["model"]
    for row in studies.answers(session, project, "capacity"):
        if _model(row.spec) == model:
            policies: Sequence[Mapping[str, Any]] = (row.answer or {}).get("policies") or ()
            return {
                policy["policy"]: policy["largest_batch"]
                for policy in policies
                if policy.get("largest_batch")
            }
    return {}


def _model(document: Mapping[str, Any]) -> Any:
    """The normalised model of a stored spec; None if this version does not accept it."""
    try:
        return JobSpec.parse(dict(document)).to_json()["model"]
    except SpecValidationError:
        return None


@dataclass(frozen=True)
class CheckedStudy:
    """A request for a study that may be created: its question is valid."""

    kind: str
    name: str
    question: StudyContext[Any]
    jobs: Sequence[PlannedJob]
    """The jobs that it needs first."""
