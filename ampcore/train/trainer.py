"""Trainer: runs one job spec from its data to its saved model, and tells of every step."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ampcore import data, hardware, models, precision
from ampcore.data import Dataset
from ampcore.errors import OutOfMemory
from ampcore.series import Event, EventType
from ampcore.spec import JobSpec
from ampcore.train.advice import precision_warnings
from ampcore.train.engine import Engine
from ampcore.train.evaluate import Evaluator
from ampcore.train.guard import Guard
from ampcore.train.ledger import Ledger, OnBlock, OnEvent
from ampcore.train.plan import Plan
from ampcore.train.result import TrainResult, weights_digest

ShouldStop = Callable[[], bool]

MODEL_FILE = "model.keras"


class Trainer:
    """Trains the job that a spec describes, on this machine.

    Args:
        spec: What to train, on what, how, for how long.
        data_root: The folder that a path in the spec is relative to and cannot leave;
            without it any path will do.
        output_dir: Where the trained model is saved, as model.keras; without it, nowhere.
    """

    def __init__(
        self,
        spec: JobSpec,
        data_root: str | Path | None = None,
        output_dir: str | Path | None = None,
    ) -> None:
        self.spec = spec
        self._data_root = None if data_root is None else Path(data_root)
        self._output_dir = None if output_dir is None else Path(output_dir)

    def run(
        self,
        on_block: OnBlock | None = None,
        on_event: OnEvent | None = None,
        should_stop: ShouldStop | None = None,
    ) -> TrainResult:
        """Train, calling back with every block of steps and every event as they happen.

        `should_stop` is asked between blocks; when it says yes, the result is `stopped`.
        Seeds Python, NumPy and TensorFlow with `train.seed`: on a CPU, two runs of one spec
        are equal bit for bit. Raises TrainingError.
        """
        ledger = Ledger(on_block, on_event)
        with _memory_errors():
            try:
                return self._run(ledger, should_stop or (lambda: False))
            finally:
                ledger.flush()

    def _run(self, ledger: Ledger, should_stop: ShouldStop) -> TrainResult:
        spec = self.spec
        device = hardware.select(spec.runtime.device)
        keras.utils.set_random_seed(spec.train.seed)
        dataset = data.load(spec.data, seed=spec.train.seed, data_root=self._data_root)
        plan = Plan.of(spec.train, dataset.steps_per_epoch(spec.data.batch_size))
        policy = precision.dtype_policy(spec.precision)
        model = models.build(spec.model, dataset.input_shape, dataset.classes, policy)
        ledger.add_event(_started(spec, plan, model, dataset, device))
        for event in precision_warnings(spec, device):
            ledger.add_event(event)

        engine = Engine(spec, model, dataset, plan)
        evaluator = Evaluator(model, dataset, spec.data.batch_size) if len(dataset.x_val) else None
        guard = Guard(spec)
        began = time.perf_counter()
        while ledger.steps < plan.total_steps and not should_stop():
            block = engine.run_block(ledger.steps)
            ledger.add_block(block, engine.loss_scale)
            guard.observe(block)
            if evaluator is not None and plan.evaluates_after(ledger.steps):
                ledger.add_evaluation(evaluator())
        train_s = time.perf_counter() - began

        stopped = ledger.steps < plan.total_steps
        return TrainResult(
            **ledger.summary(),
            final_loss_scale=engine.loss_scale,
            parameters=model.count_params(),
            train_s=train_s,
            weights_digest=weights_digest(model),
            model_file=None if stopped else self._save(model, ledger),
            stopped=stopped,
        )

    def _save(self, model: Any, ledger: Ledger) -> Path | None:
        """Save the model under its final name only when it is whole."""
        if self._output_dir is None:
            return None
        self._output_dir.mkdir(parents=True, exist_ok=True)
        file = self._output_dir / MODEL_FILE
        unfinished = file.with_stem(f".{file.stem}-{os.getpid()}")
        try:
            model.save(unfinished)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
        facts = {"file": file.name, "size_bytes": file.stat().st_size}
        ledger.add_event(Event(EventType.MODEL_SAVED, ledger.steps - 1, facts))
        return file


def _started(spec: JobSpec, plan: Plan, model: Any, dataset: Dataset, device: str) -> Event:
    facts = {
        "total_steps": plan.total_steps,
        "steps_per_epoch": plan.steps_per_epoch,
        "parameters": model.count_params(),
        "device": device,
        "engine": Engine.name,
        "dropped_examples": dataset.dropped_examples(spec.data.batch_size),
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
