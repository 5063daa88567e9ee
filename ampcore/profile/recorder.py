"""Records a few steps of a run with TensorFlow's profiler, and has them analysed beside it.

Steps that are not profiled run exactly as without a recorder: the compiled loop is the same, and
the profiler is off. Profiled steps give the same results; only their blocks end at other steps.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Protocol

import tensorflow as tf

from ampcore.precision.layers.layer_paths import walk_layers
from ampcore.profile import analysis
from ampcore.profile.analysis_process import AnalysisProcess, ProfileFailed
from ampcore.profile.executed import SIXTEEN_BIT, ExecutedOperation
from ampcore.profile.executed_graph import executed_operations
from ampcore.profile.findings import CODE
from ampcore.profile.operations import ProfileContext, ProfiledLayer
from ampcore.profile.trace_level import VERBOSE, record_all_operations
from ampspec.precision.devices import DeviceInfo
from ampspec.telemetry.events import PROFILE_FAILED, PROFILE_NOT_TAKEN, Event, EventType

FOLDER: Final = "profile"
"""In the output folder of a run: a folder for each profile."""
WARMUP_STEPS: Final = 2
"""The first steps of a process allocate memory and choose kernels: they are never profiled."""
INCOMPLETE: Final = "profile_incomplete"


@dataclass(frozen=True)
class ProfileRequest:
    """Which steps to profile: `steps` of them from step `start` on; None: from the next one on."""

    start: int | None
    steps: int


class ProfiledRunner(Protocol):
    """What a recorder reads of a run's steps (`StepRunner`)."""

    @property
    def networks(self) -> Sequence[Any]:
        """The networks of the task."""

    @property
    def policies(self) -> Any:
        """The dtypes of the layers."""

    @property
    def engine(self) -> str | None:
        """The engine in use."""

    def execute_zero_steps(self, step: int) -> Any:
        """Call the compiled loop for zero steps."""


@dataclass
class _Recording:
    folder: Path
    first_step: int
    steps: int
    done: int = 0
    wall_s: float = 0.0


@dataclass
class ProfileRecorder:
    """Takes the profiles of one run, one after the other.

    Args:
        device: The device of the run.
        output: The output folder of the run.
        requests: The steps to profile.
        incoming: Requests that other threads add while the run is in progress.
    """

    device: DeviceInfo
    output: Path | None
    requests: list[ProfileRequest] = field(default_factory=list)
    incoming: SimpleQueue[ProfileRequest] = field(default_factory=SimpleQueue)
    _first_step: int | None = field(default=None, init=False)
    _recording: _Recording | None = field(default=None, init=False)
    _analyses: list[AnalysisProcess] = field(default_factory=list, init=False)

    def max_steps(self, step: int) -> int | None:
        """How many steps the next block may have; None: as many as it wants.

        Args:
            step: The first step of the block.
        """
        if self._recording is not None:
            return self._recording.steps - self._recording.done
        starts = [self._start_of(request, step) for request in self.requests]
        ahead = [start - step for start in starts if start > step]
        return min(ahead, default=None)

    def before_block(self, step: int) -> Sequence[Event]:
        """Start a profile that is due at a step; returns what went wrong."""
        if self._first_step is None:
            self._first_step = step
            # A run that resumed later has no such steps any more.
            self.requests = [
                request for request in self.requests if (request.start or step) >= step
            ]
        while not self.incoming.empty():
            self.requests.append(self.incoming.get())
        due = [request for request in self.requests if self._start_of(request, step) <= step]
        if self._recording is not None or not due:
            return ()
        self.requests.remove(due[0])
        if self.output is None:
            return [_failed(step, "the run has no output folder.")]
        folder = self.output / FOLDER / f"step-{step}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tf.profiler.experimental.start(str(folder), _options())
        except (tf.errors.OpError, OSError) as error:
            return [_failed(step, f"it could not start: {_first_line(error)}")]
        self._recording = _Recording(folder, step, due[0].steps)
        return () if record_all_operations() else [_incomplete(step)]

    def after_block(self, steps: int, wall_s: float) -> None:
        """Count the steps of a block and their time."""
        if self._recording is not None:
            self._recording.done += steps
            self._recording.wall_s += wall_s

    def finish_if_done(self, runner: ProfiledRunner, *, is_last: bool = False) -> list[Event]:
        """Stop a profile whose steps are done, and return the events of those analysed meanwhile.

        Args:
            runner: Trains the run's steps.
            is_last: There are no more steps: stop a profile with fewer, and wait for all.
        """
        events: list[Event] = []
        recording = self._recording
        if recording is not None and (is_last or recording.done >= recording.steps):
            events += self._stop(recording, runner)
        if is_last:
            while not self.incoming.empty():
                self.requests.append(self.incoming.get())
            events += [_not_taken(request) for request in self.requests]
            self.requests = []
        for running in list(self._analyses):
            if is_last or running.has_ended:
                self._analyses.remove(running)
                events += self._events(running)
        return events

    def abandon(self) -> None:
        """End the profiler and all analyses, without a report."""
        if self._recording is not None:
            self._recording = None
            with suppress(tf.errors.OpError):
                tf.profiler.experimental.stop(save=False)
        for running in self._analyses:
            running.kill()
        self._analyses = []

    def _start_of(self, request: ProfileRequest, step: int) -> int:
        first = self._first_step if self._first_step is not None else step
        return max(request.start or 0, first + WARMUP_STEPS)

    def _stop(self, recording: _Recording, runner: ProfiledRunner) -> list[Event]:
        self._recording = None
        last = recording.first_step + max(recording.done, 1) - 1
        try:
            tf.profiler.experimental.stop(save=recording.done > 0)
            if not recording.done:
                return []
            _collect_trace(recording.folder)
            self._analyses.append(
                AnalysisProcess(recording.folder, last, self._context(recording, runner))
            )
        except (tf.errors.OpError, OSError, ProfileFailed) as error:
            return [_failed(last, _first_line(error))]
        return []

    def _context(self, recording: _Recording, runner: ProfiledRunner) -> ProfileContext:
        dtypes = ("float32", *SIXTEEN_BIT)
        promised = runner.policies.compute_dtypes & set(SIXTEEN_BIT)
        return ProfileContext(
            policy=runner.policies.name,
            promised_dtype=min(promised, default=None),
            engine=runner.engine or "graph",
            device={"kind": self.device.kind, "name": self.device.name},
            fast_dtypes=[dtype for dtype in dtypes if self.device.computes_fast_in(dtype)],
            first_step=recording.first_step,
            steps=recording.done,
            wall_s=recording.wall_s,
            layers=_layers(runner.networks),
            operations=self._operations(recording, runner),
        )

    def _operations(
        self, recording: _Recording, runner: ProfiledRunner
    ) -> Sequence[ExecutedOperation]:
        if runner.engine == "xla_loop":  # the trace contains the program that was executed
            return ()
        return executed_operations(
            lambda: runner.execute_zero_steps(recording.first_step),
            computes_fast_in=self.device.computes_fast_in,
        )

    @staticmethod
    def _events(running: AnalysisProcess) -> list[Event]:
        try:
            report = running.wait()
        except ProfileFailed as error:
            return [_failed(running.last_step, str(error))]
        return [
            _profile_event(report, running),
            *(_finding_event(finding, running.last_step) for finding in report["findings"]),
        ]


def _options() -> Any:
    return tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=VERBOSE, python_tracer_level=0, device_tracer_level=1
    )


def _collect_trace(folder: Path) -> None:
    """Move the trace out of the folders that TensorFlow has made for it."""
    traces = sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
    if not traces:
        raise ProfileFailed("TensorFlow wrote no trace.")
    traces[-1].replace(folder / analysis.TRACE)
    shutil.rmtree(folder / "plugins")


def _layers(networks: Sequence[Any]) -> list[ProfiledLayer]:
    return [
        ProfiledLayer(entry.info.path, entry.layer.compute_dtype, _sizes(entry.layer))
        for network in networks
        for entry in walk_layers(network.model)
    ]


def _sizes(layer: Any) -> tuple[int, ...]:
    """The sizes of a layer's matrices: of convolutions, the numbers of channels."""
    shapes = [weight.shape for weight in layer.weights if len(weight.shape) > 1]
    return tuple(dict.fromkeys(size for shape in shapes for size in shape[-2:]))


def _profile_event(report: dict[str, Any], running: AnalysisProcess) -> Event:
    folder = f"{FOLDER}/{running.folder.name}"
    names = [analysis.REPORT, analysis.TRACE, analysis.PERFETTO]
    figures = ("first_step", "steps", "policy", "engine", "step_s", "sixteen_bit", "phases")
    facts = {
        "file": f"{folder}/{analysis.REPORT}",
        "files": [f"{folder}/{name}" for name in names if (running.folder / name).exists()],
        **{name: report[name] for name in figures},
    }
    return Event(EventType.PROFILE, running.last_step, facts)


def _finding_event(finding: dict[str, Any], step: int) -> Event:
    facts = {**finding, "operations": finding["operations"][:5], "code": CODE}
    return Event(EventType.WARNING, step, facts)


def _failed(step: int, cause: str) -> Event:
    return Event.warning(PROFILE_FAILED, f"The profile at step {step} failed: {cause}", step)


def _not_taken(request: ProfileRequest) -> Event:
    message = (
        "The run ended before the requested profile was taken."
        if request.start is None
        else f"profile.start: the run ended before step {request.start}; no profile was taken."
    )
    return Event.warning(PROFILE_NOT_TAKEN, message)


def _incomplete(step: int) -> Event:
    message = (
        f"The profile at step {step} has no operations shorter than about 3 µs: this version of "
        "TensorFlow does not record them."
    )
    return Event.warning(INCOMPLETE, message, step)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
