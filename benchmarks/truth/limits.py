"""Planted limits of memory: trainers that may allocate so much, and models that need more.

Each case asks the search of a study of capacity. Its jobs are real trainers, forked as a worker
forks them and confined by RLIMIT_DATA, or watched as in a sandbox. The answer is right if the size
that it names trains again, and the size that did not fit fails
again in one of two jobs, unless the answer says that it ran, too.
"""

import atexit
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from ampspec.api.study_requests import CapacityOptions
from ampspec.jobs import State
from ampspec.studies.capacity.batch_search import size_of_key
from ampspec.studies.capacity.capacity import MIXED, CapacityKind
from ampspec.studies.plan import JobResult, NoAnswer, StudyContext
from ampspec.telemetry.frames import Frame, FrameType
from infra.isolation import TEMP_FOLDER, Confinement
from infra.isolation.process_group_tracker import ProcessGroupTracker
from truth.case import Outcome, PlantedFault, Verdict
from truth.case import Question as Asked
from worker.attempt.outcome import Failure, TrainerExit, result_of
from worker.trainer.fork_server import ForkServer
from worker.trainer.frame_validator import FINAL_FRAMES
from worker.trainer.isolation import TrainerFolder
from worker.trainer.sandbox import SandboxLimits
from worker.trainer.sandbox_monitor import SandboxMonitor
from worker.trainer.trainer_process import PROGRAM, TrainerProcess

GIB: Final = 2**30
MACHINE_BYTES: Final = 64 * GIB
"""Of the machine that the study is told of: the limit of trainers is far below it."""
GRACE_S: Final = 60.0
READ_S: Final = 1.0
MAX_STEPS: Final = 3
STATE_BY_OUTCOME: Final = {"succeeded": State.SUCCEEDED}
CODE: Final = '''
import os
import signal

import keras


@keras.saving.register_keras_serializable(package="net")
class Greedy(keras.layers.Layer):
    """Acts on batches above a size: what custom code may do without memory."""

    def __init__(self, act, largest, **options):
        super().__init__(**options)
        self.act, self.largest = act, largest

    def get_config(self):
        return {**super().get_config(), "act": self.act, "largest": self.largest}

    def call(self, inputs):
        import tensorflow as tf

        def act(rows):
            if rows.shape[0] > self.largest:
                if self.act == "raise":
                    raise MemoryError("no memory for a table of neighbours")
                if self.act == "crash":
                    os.kill(os.getpid(), signal.SIGSEGV)
                if self.act == "error":
                    raise ValueError("the table of neighbours is too large")
            return rows

        rows = tf.numpy_function(act, [inputs], tf.float32)
        return tf.ensure_shape(rows, inputs.shape)


def build(options, signature):
    inputs = keras.Input([64])
    hidden = inputs
    for _ in range(options.get("layers", 1)):
        hidden = keras.layers.Dense(options.get("units", 16), activation="relu")(hidden)
    if "act" in options:
        hidden = Greedy(options["act"], options["largest"], dtype="float32")(hidden)
    return keras.Model(inputs, keras.layers.Dense(10)(hidden))
'''


@dataclass(frozen=True)
class Limits:
    """What the trainers of a case may use."""

    data_bytes: int | None = None
    """RLIMIT_DATA, as AMPCORE_TRAINER_MEMORY_BYTES sets it."""
    resident_bytes: int | None = None
    """Watched, as AMPCORE_BUNDLE_MEMORY_BYTES is for custom code."""

    @property
    def reported_bytes(self) -> int | None:
        """The limit that a worker reports."""
        return self.resident_bytes or self.data_bytes


@dataclass
class Trial:
    """One trainer, and what its frames said."""

    last: Frame | None = None
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def read(self, frame: Frame) -> None:
        """Keep what matters of a frame."""
        if frame.type in FINAL_FRAMES:
            self.last = frame
        if frame.type is FrameType.EVENT:
            self.events.append(frame.header["data"])


@cache
def fork_server() -> tuple[ForkServer, ProcessGroupTracker]:
    """One fork server for all trainers of this process; it ends with the process."""
    tracker = ProcessGroupTracker()
    server = ForkServer(PROGRAM, tracker)
    atexit.register(tracker.close)
    atexit.register(server.close)
    return server, tracker


def train(spec: Mapping[str, Any], limits: Limits, job_id: str) -> JobResult:
    """Train a spec in a confined process, and classify its end as a worker does."""
    with tempfile.TemporaryDirectory(prefix="ampcore-truth-") as name:
        folder = Path(name)
        for part in (TEMP_FOLDER, "output", "code"):
            (folder / part).mkdir()
        (folder / "code" / "net.py").write_text(CODE, encoding="utf-8")
        confinement = Confinement(folder=folder, datasets=folder, memory_bytes=limits.data_bytes)
        process = TrainerProcess(*fork_server(), TrainerFolder(folder, confinement))
        monitor = None
        if limits.resident_bytes is not None:
            monitor = SandboxMonitor(process, SandboxLimits(limits.resident_bytes, 4096, GIB))
            monitor.start()
        process.assign(
            {
                "spec": spec,
                "data_root": None,
                "output_dir": str(folder / "output"),
                "bundle": str(folder / "code"),
            }
        )
        trial = Trial()
        while process.has_more_frames and (monitor is None or monitor.violation is None):
            for frame in process.read_frames(READ_S):
                trial.read(frame)
        for frame in process.end(GRACE_S):
            trial.read(frame)
        if monitor is not None:
            monitor.stop()
    violation = monitor.violation if monitor is not None else None
    ended = TrainerExit(
        trial.last,
        process.exit_code,
        last_line=process.log_capture.last_line(),
        log_tail=process.log_capture.tail,
        failure=Failure(violation.reason, violation.message) if violation is not None else None,
    )
    result = result_of(ended, None)
    if result is None:
        raise ValueError("expected the result of an attempt; received none")
    return JobResult(
        job_id,
        STATE_BY_OUTCOME.get(result.outcome, State.FAILED),
        reason=result.reason,
        message=result.message,
        summary=result.summary or {},
    )


@dataclass(frozen=True)
class LimitCase:
    """A model and a limit, with what the answer must say.

    Args:
        model: The section of the spec.
        data: The section of the spec.
        limits: What its trainers may use.
        limited_by: The right reason why no larger batch is known to fit.
        policy: The policy that is studied.
        is_refused: The right answer is none: the jobs fail for another reason than memory.
        has_size: Whether a size must be named.
    """

    model: Mapping[str, Any]
    data: Mapping[str, Any]
    limits: Limits
    limited_by: str
    policy: str = "float32"
    is_refused: bool = False
    has_size: bool = True
    max_batch: int = 4096

    def ask(self, seed: int) -> Outcome:
        """Search the largest batch, and try the sizes of the answer once more."""
        document = {
            "model": self.model,
            "data": {"validation_split": 0.0, "batch_size": 32, **self.data},
            "train": {"seed": seed},
            "runtime": {"engine": "graph"},
        }
        options = CapacityOptions(
            policies=[self.policy], steps=MAX_STEPS, max_batch=self.max_batch, resolution=0.5
        )
        question = StudyContext(
            document,
            options,
            (self.policy,),
            device="cpu",
            device_memory_bytes=MACHINE_BYTES,
            memory_limit_bytes=self.limits.reported_bytes,
        )
        kind, results = CapacityKind(), {}
        specs: dict[int, Mapping[str, Any]] = {}
        while missing := [job for job in kind.jobs(question, results) if job.key not in results]:
            for job in missing:
                spec = job.document(question, "truth")
                specs[size_of_key(job.key)] = spec
                results[job.key] = train(spec, self.limits, job.key)
        try:
            [policy] = kind.answer(question, results).policies
        except NoAnswer as error:
            return Outcome(Verdict.RIGHT if self.is_refused else Verdict.CANNOT_TELL, str(error))
        if policy.limited_by in ("failure", "time"):
            return Outcome(Verdict.CANNOT_TELL, policy.explanation)
        is_right = (
            not self.is_refused
            and policy.limited_by == self.limited_by
            and (policy.largest_batch is not None) is self.has_size
        )
        retry = partial(self._fits, specs)
        largest, failed = policy.largest_batch, policy.smallest_failed
        is_right = is_right and (largest is None or retry(largest))
        # Near the limit chance decides: a size fails if it does not always run.
        says_so = failed is None or MIXED in policy.explanation
        is_right = is_right and (says_so or not (retry(failed) and retry(failed)))
        return Outcome(Verdict.RIGHT if is_right else Verdict.WRONG, policy.explanation)

    def _fits(self, specs: Mapping[int, Mapping[str, Any]], size: int) -> bool:
        return train(specs[size], self.limits, f"again-{size}").had_enough_memory


def _bundle(**options: Any) -> Mapping[str, Any]:
    return {
        "kind": "bundle",
        "bundle": "sha256:" + "0" * 64,
        "build": "net:build",
        "options": options,
    }


VECTORS: Final = {"kind": "synthetic", "shape": [64], "examples": 9_000}
IMAGES: Final = {"kind": "synthetic", "shape": [28, 28, 1], "examples": 8_000}
COLOURS: Final = {"kind": "synthetic", "shape": [32, 32, 3], "examples": 6_000}
WIDE: Final = {"kind": "mlp", "hidden": [2048, 2048]}
CASES: Final[Mapping[str, tuple[LimitCase, str]]] = {
    "limit of 1.5 GiB, convolutions, float32": (
        LimitCase({"kind": "cnn"}, IMAGES, Limits(3 * GIB // 2), "memory"),
        "a size that runs, and one that does not",
    ),
    "limit of 1.5 GiB, residual network, float32": (
        LimitCase({"kind": "resnet", "depth": 8}, COLOURS, Limits(3 * GIB // 2), "memory"),
        "a size that runs, and one that does not",
    ),
    "limit of 1 GiB, dense layers of 2048 units": (
        LimitCase(WIDE, VECTORS, Limits(GIB), "memory"),
        "a size that runs, and one that does not",
    ),
    "limit of 0.5 GiB, in which no trainer starts": (
        LimitCase({"kind": "cnn"}, IMAGES, Limits(GIB // 2), "memory", has_size=False),
        "not even one example",
    ),
    "limit of 3 GiB, a model that needs little": (
        LimitCase(
            {"kind": "mlp", "hidden": [16]}, {**VECTORS, "examples": 500}, Limits(3 * GIB), "data"
        ),
        "all the data",
    ),
    "limit of 3 GiB, max_batch of 64": (
        LimitCase({"kind": "cnn"}, IMAGES, Limits(3 * GIB), "max_batch", max_batch=64),
        "no larger one was tried",
    ),
    "custom code in a sandbox of 0.75 GiB": (
        LimitCase(
            _bundle(units=1024, layers=8), VECTORS, Limits(resident_bytes=3 * GIB // 4), "memory"
        ),
        "a size that runs, and one that does not",
    ),
    "custom code that raises MemoryError above 100 examples": (
        LimitCase(_bundle(act="raise", largest=100), VECTORS, Limits(4 * GIB), "memory"),
        "a size of at most 100, and one above",
    ),
    "custom code that crashes above 100 examples": (
        LimitCase(_bundle(act="crash", largest=100), VECTORS, Limits(4 * GIB), "memory"),
        "a size of at most 100, and one above",
    ),
    "custom code that crashes at every size": (
        LimitCase(_bundle(act="crash", largest=0), VECTORS, Limits(4 * GIB), "", is_refused=True),
        "no answer",
    ),
    "custom code with another error": (
        LimitCase(_bundle(act="error", largest=0), VECTORS, Limits(4 * GIB), "", is_refused=True),
        "no answer",
    ),
}


def _fault(name: str, case: LimitCase, expected: str) -> PlantedFault:
    ask: Callable[[int], Outcome] = case.ask
    is_quick = name == "limit of 0.5 GiB, in which no trainer starts"
    return PlantedFault(name, Asked.CAPACITY, expected, ask, is_quick=is_quick)


FAULTS: Final[tuple[PlantedFault, ...]] = tuple(
    _fault(name, case, expected) for name, (case, expected) in CASES.items()
)
