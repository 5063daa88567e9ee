"""Trainer: runs one job spec from its data to its saved model, and tells of every step."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import keras
import tensorflow as tf

from ampcore import data
from ampcore.checkpoint import Checkpoint
from ampcore.data import Dataset
from ampcore.diagnose import hardware
from ampcore.diagnose.preflight import preflight_events
from ampcore.errors import OutOfMemory, TrainingError
from ampcore.precision.float16_on_cpu import unfused
from ampcore.series import Event, EventType
from ampcore.spec import JobSpec
from ampcore.spec.devices import DeviceFacts
from ampcore.train.checkpoints import FOLDER, Checkpoints, newest, resumed_event
from ampcore.train.counters import Counters
from ampcore.train.feed import feed_for
from ampcore.train.loop import EngineName, engine_name
from ampcore.train.outbox import OnBlock, OnEvent, Outbox
from ampcore.train.plan import Plan
from ampcore.train.result import TrainResult, weights_digest
from ampcore.train.run import Material, Run
from ampcore.train.saving import save_models
from ampcore.train.session import parameters
from ampcore.train.trial import Decision, choose

ShouldStop = Callable[[], bool]

RESIDENT_SHARE: Final = 0.25
"""Of a device's memory that training examples may take; larger data is streamed."""

PRECISION: Final = ("precision", "loss_scale")
"""How the fields of a spec begin that say in which precision a job trains."""

NOTHING: Final[tuple[None, list[Any], list[Any]]] = (None, [], [])
"""To go on from."""


class Trainer:
    """Trains the job that a spec describes, on this machine.

    Args:
        spec: What to train, on what, how, for how long.
        data_root: The folder that a path in the spec is relative to and cannot leave;
            without it any path will do.
        output_dir: Where the trained model and the checkpoints are saved; without it, nowhere.
        resume: Go on from the newest checkpoint in `output_dir`; from the beginning where there
            is none.
    """

    def __init__(
        self,
        spec: JobSpec,
        data_root: str | Path | None = None,
        output_dir: str | Path | None = None,
        *,
        resume: bool = False,
    ) -> None:
        self.spec = spec
        self._resume = resume
        self._data_root = None if data_root is None else Path(data_root)
        self._output_dir = None if output_dir is None else Path(output_dir)
        self._under_way: Run | None = None

    @property
    def scale_health(self) -> str | None:
        """A word for the loss scale as the run stands now; None before it begins."""
        return self._under_way.diagnosis.scale_health if self._under_way else None

    def run(
        self,
        on_block: OnBlock | None = None,
        on_event: OnEvent | None = None,
        should_stop: ShouldStop | None = None,
    ) -> TrainResult:
        """Train, calling back with every block of steps and every event as they happen.

        `should_stop` is asked between blocks; when it says yes, the result is `stopped`.
        Seeds Python, NumPy and TensorFlow with `train.seed`: on a CPU, two runs of one spec
        with the same engine are equal bit for bit. Raises TrainingError.
        """
        outbox = Outbox(on_block, on_event)
        with _memory_errors():
            try:
                return self._run(outbox, should_stop or (lambda: False))
            finally:
                outbox.flush()

    def _run(self, outbox: Outbox, should_stop: ShouldStop) -> TrainResult:
        spec = self.spec
        device = hardware.select(spec.runtime.device)
        keras.utils.set_random_seed(spec.train.seed)
        dataset = data.load(
            spec.data,
            seed=spec.train.seed,
            data_root=self._data_root,
            accumulate=spec.train.accumulate,
        )
        material = _material(spec, dataset, hardware.facts(device))
        with unfused(spec.precision, material.device):
            return self._train(material, outbox, should_stop)

    def _train(self, material: Material, outbox: Outbox, should_stop: ShouldStop) -> TrainResult:
        run = self._under_way = self._begun(material, outbox)
        began = time.perf_counter()
        try:
            while not run.is_done and not should_stop():
                run.advance()
            if run.is_done:
                run.check_result()
        except TrainingError:
            # Whoever finds out what is wrong can go on from there.
            run.save()
            raise
        finally:
            # Whoever looks into a run that failed wants it most.
            run.tell_scale_table()
        train_s = time.perf_counter() - began
        if not run.is_done or material.spec.train.checkpoint_every_s is not None:
            run.save()
        peak_memory = hardware.peak_memory(material.device.kind)
        return self._result(run, train_s, peak_memory.bytes, outbox)

    def _begun(self, material: Material, outbox: Outbox) -> Run:
        """The run as it stands before its first step, or before the next one."""
        spec, folder = self.spec, self._output_dir and self._output_dir / FOLDER
        found, differences, told = newest(folder, spec) if folder and self._resume else NOTHING
        saved = found.checkpoint if found else None
        checkpoints = Checkpoints(folder, spec.train.checkpoint_every_s)
        # Whoever changes the precision does not want the fallback from the former one.
        asked_anew = any(difference.field.startswith(PRECISION) for difference in differences)
        float32 = bool(saved and Counters.of(saved.manifest).in_float32) and not asked_anew
        run = Run(material, checkpoints, outbox, float32=float32)
        if saved:
            run.restore(saved)
        else:
            run.start()
        outbox.event(_started(material, run))
        for event in (*_preflight(material, run), *told):
            outbox.event(event)
        if found:
            outbox.event(resumed_event(found, differences))
        if not run.is_done:
            decision = _use_engine(run, spec.runtime.engine, saved, material.device.kind)
            outbox.event(decision.event(run.totals.steps))
        return run

    def _result(
        self, run: Run, train_s: float, peak_memory_bytes: int, outbox: Outbox
    ) -> TrainResult:
        session, totals = run.session, run.totals
        if run.is_done:
            session.adopt_averages()
        files = []
        if run.is_done and self._output_dir is not None:
            for file in save_models(session.networks, self._output_dir):
                files.append(file)
                facts = {"file": file.name, "size_bytes": file.stat().st_size}
                outbox.event(Event(EventType.MODEL_SAVED, totals.steps - 1, facts))
        return TrainResult(
            steps=totals.steps,
            skipped=totals.skipped,
            final_loss=totals.final_loss,
            final_loss_scale=session.loss_scale,
            val_loss=totals.evaluation.get("val_loss"),
            val_accuracy=totals.evaluation.get("val_accuracy"),
            examples_per_s=totals.examples_per_s,
            parameters=parameters(session.task),
            train_s=train_s,
            peak_memory_bytes=peak_memory_bytes,
            policy=session.policies.name,
            engine=session.engine,
            scale_health=run.diagnosis.scale_health,
            weights_digest=weights_digest(session.networks),
            model_files=tuple(files),
            stopped=not run.is_done,
        )


def _material(spec: JobSpec, dataset: Dataset, device: DeviceFacts) -> Material:
    examples = spec.data.batch_size * spec.train.accumulate
    plan = Plan.of(spec.train, dataset.steps_per_epoch(examples))
    memory_bytes = device.memory_bytes
    feed = feed_for(
        dataset,
        examples,
        shuffle=spec.data.shuffle,
        seed=spec.train.seed,
        budget_bytes=RESIDENT_SHARE * memory_bytes if memory_bytes else float("inf"),
    )
    return Material(spec, dataset, plan, feed, device)


def _use_engine(
    run: Run, engine: EngineName | Literal["auto"], saved: Checkpoint | None, device: str
) -> Decision:
    """Use the engine that the spec names, else that of the checkpoint, else the fastest."""
    session, step = run.session, run.totals.steps
    if engine != "auto":
        session.use(engine, step)
        return Decision(engine, "runtime.engine names it")
    made = saved.manifest if saved else None
    # On another device or in another precision the figures behind the choice do not hold.
    if made and (made.device, made.policy) == (device, session.policies.name):
        pinned = engine_name(made.engine)
        session.use(pinned, step)
        return Decision(pinned, "the checkpoint was made with it")
    return choose(session, step, run.steps_left, device)


def _preflight(material: Material, run: Run) -> Iterator[Event]:
    session, steps = run.session, material.plan.total_steps
    return preflight_events(session.task, material.spec, material.device, session.policies, steps)


def _started(material: Material, run: Run) -> Event:
    session = run.session
    examples = session.step.accumulate * material.spec.data.batch_size
    facts = {
        "total_steps": material.plan.total_steps,
        "steps_per_epoch": material.plan.steps_per_epoch,
        "first_step": run.totals.steps,
        "parameters": parameters(session.task),
        "device": material.device.kind,
        "policy": session.policies.name,
        "dropped_examples": material.dataset.dropped_examples(examples),
    }
    return Event(EventType.STARTED, None, facts)


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        detail = (str(error).strip().splitlines() or ["no details"])[0]
        raise OutOfMemory(
            f"Not enough memory ({detail}): lower data.batch_size, take a smaller model, "
            "or less data."
        ) from error
