"""Saves the trained models: with the last weights, those of the best evaluation, or both."""

import math
from collections.abc import Iterator, Mapping, Sized
from functools import partial
from pathlib import Path
from typing import Any, Final

from ampcore.checkpoint.model_files import WEIGHTS_FILE, save_models, save_signature, save_weights
from ampcore.phase_scopes import phase_span
from ampcore.phases import Phase
from ampcore.training.callback_buffer import CallbackBuffer
from ampcore.training.evaluation.example_metrics import ExampleMetrics, example_metrics
from ampcore.training.result.signature import signature_document
from ampcore.training.run.run import Run
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.evaluation_report import write_report
from ampspec.telemetry.validation_examples import (
    MAX_EXAMPLES,
    VALIDATION_EXAMPLES_FILE,
    write_examples,
)

UNSAVEABLE: Final = (AttributeError, KeyError, NotImplementedError, TypeError, ValueError)
"""The errors of a get_config that does not work."""
BEST_SUFFIX: Final = "-best"
"""In the name of a model file with `train.keep: both`: the weights of the best evaluation."""


class ModelSelection:
    """Chooses the weights of a complete run.

    Args:
        run: The run; its weights are assigned here.
        keep: `train.keep` of the spec.
        callback_buffer: Gets the events.
    """

    def __init__(self, run: Run, keep: str, callback_buffer: CallbackBuffer) -> None:
        self._run, self._keep, self._callback_buffer = run, keep, callback_buffer
        self.constant_metrics: Mapping[str, float] = {}
        """Of the best constant prediction, by metric; known once examples are evaluated."""
        self._examples_file: Path | None = None
        self._report_file: Path | None = None

    @property
    def is_best(self) -> bool:
        """Whether the trained model has the weights of the best evaluation."""
        return self._keep == "best" and self._run.evaluations.best_arrays is not None

    def assign(self) -> None:
        """Make the chosen weights those of the models."""
        runner, best = self._run.runner, self._run.evaluations.best_arrays
        runner.weights.assign_averages()
        if best is None and self._keep != "last":
            last = max(self._run.totals.steps - 1, 0)
            message = "No evaluation had a finite value: the trained model has the last weights."
            self._callback_buffer.event(Event.warning("no_best_evaluation", message, last))
        if self.is_best and best is not None:
            runner.weights.restore(best)

    def evaluate_examples(self, folder: Path | None) -> None:
        """Write the metrics of each validation example with the chosen weights.

        Rank 0 does it alone; not for tables whose rows are on several ranks, nor without a folder,
        nor for more than MAX_EXAMPLES.
        """
        run = self._run
        runner = run.runner
        if folder is None or not run.is_done or runner.tables.shards or runner.communicator.rank:
            return
        validation = run.context.dataset.validation
        if isinstance(validation, Sized) and len(validation) > MAX_EXAMPLES:
            message = (
                f"There are {len(validation):,} validation examples, more than {MAX_EXAMPLES:,}: "
                f"no {VALIDATION_EXAMPLES_FILE} lists their rows and metrics."
            )
            step = run.totals.steps - 1
            self._callback_buffer.event(Event.warning("many_validation_examples", message, step))
            return
        with phase_span(Phase.EVALUATION):
            metrics = self._example_metrics()
        if metrics is None:
            return
        self.constant_metrics = {f"val_{name}": value for name, value in metrics.constant.items()}
        self._warn_if_no_better_than_constant()
        self._examples_file = write_examples(folder, metrics.rows, metrics.values)
        if metrics.report is not None:
            facts = {"steps": run.totals.steps, "is_best": self.is_best, "metrics": self.metrics()}
            self._report_file = write_report(folder, {**facts, **metrics.report})

    def _warn_if_no_better_than_constant(self) -> None:
        """Say so if by no metric the model is better than the best constant prediction."""
        metrics = self.metrics()
        compared = {
            name: (metrics[name], constant)
            for name, constant in self.constant_metrics.items()
            if math.isfinite(metrics.get(name, math.nan))
        }
        if not compared or any(
            value > constant if name.endswith("accuracy") else value < constant
            for name, (value, constant) in compared.items()
        ):
            return
        figures = ", ".join(
            f"{name} {value:.4g} against {constant:.4g}"
            for name, (value, constant) in compared.items()
        )
        message = (
            "On the validation examples the model is no better than the best prediction that is "
            f"the same for each example: {figures}."
        )
        step = self._run.totals.steps - 1
        self._callback_buffer.event(Event.warning("no_better_than_constant", message, step))

    def _example_metrics(self) -> ExampleMetrics | None:
        """The metrics; if there can be no report, without one and with a warning.

        A training must not be lost because targets are none that a report knows.
        """
        run = self._run
        evaluate = partial(
            example_metrics, run.runner.task, run.context.dataset, run.spec.data.batch_size
        )
        if run.spec.train.evaluation_report:
            try:
                return evaluate(with_report=True)
            except (ValueError, TypeError, LookupError) as error:
                message = f"There is no report of the evaluation: {type(error).__name__}: {error}"
                step = run.totals.steps - 1
                warning = Event.warning("evaluation_not_reported", message[:500], step)
                self._callback_buffer.event(warning)
        return evaluate()

    def save(self, folder: Path | None) -> Iterator[Path]:
        """Save the models with the chosen weights.

        Args:
            folder: Where; None on a rank that only sends its rows of the models' tables.
        """
        yield from self._save(folder, "", is_best=self.is_best)

    def save_best(self, folder: Path | None) -> Iterator[Path]:
        """With `keep: both`, save them with the best weights too; the chosen ones stay assigned."""
        best, runner = self._run.evaluations.best_arrays, self._run.runner
        if self._keep != "both" or best is None:
            return
        last = runner.weights.capture()
        runner.weights.restore(best)
        yield from self._save(folder, BEST_SUFFIX, is_best=True)
        runner.weights.restore(last)

    def metrics(self) -> dict[str, float]:
        """The evaluation of the chosen weights."""
        if self.is_best and self._run.evaluations.best is not None:
            return dict(self._run.evaluations.best.state.evaluation)
        return self._run.totals.evaluation

    def best_json(self) -> dict[str, Any] | None:
        """Which evaluation was the best; None without one."""
        best = self._run.evaluations.best
        if best is None or best.state.value is None:
            return None
        state = best.state
        return {
            "metric": state.metric,
            "value": state.value,
            "epoch": self._run.evaluations.last_epoch(state.steps),
            "steps": state.steps,
            "metrics": dict(state.evaluation),
        }

    def stopped_json(self) -> dict[str, Any] | None:
        """The facts of an early end; None without one."""
        if (epoch := self._run.stopped_by_callback) is not None:
            return {"epoch": epoch, "metric": None, "best": None}
        best = self._run.evaluations.best
        if best is None or not best.has_stopped:
            return None
        return best.stopped_json(self._run.evaluations.last_epoch(self._run.totals.steps))

    def _saved(self, files: Iterator[Path], suffix: str) -> Iterator[Path]:
        """The files; of a custom model that cannot be saved, a warning instead.

        Its weights are saved anyway, and what was trained must not be lost.
        """
        run = self._run
        is_given = all(network.is_given for network in run.runner.networks)
        try:
            yield from files
        except UNSAVEABLE as error:
            if not is_given:
                raise
            paragraph = str(error).strip().partition("\n\n")[0]
            reason = " ".join(paragraph.split())[:300] or "no details"
            location = (
                "The weights of the best evaluation are in no file but the checkpoint."
                if suffix
                else f"Its weights are in {WEIGHTS_FILE}."
            )
            message = (
                "The model was not saved as a file of Keras: "
                f"{type(error).__name__}: {reason}. {location}"
            )
            step = run.totals.steps - 1
            self._callback_buffer.event(Event.warning("model_not_saved", message, step))

    def _exports(self, file: Path, suffix: str, signatures: Mapping[str, Any]) -> dict[str, Any]:
        """Write the files of `train.export`, with a warning for each format that fails."""
        formats = self._run.spec.train.export
        if not formats:
            return {}
        # It loads libraries that most jobs do not need.
        from ampcore.export.export import export_model

        name = file.stem.removesuffix(suffix)
        outcome = export_model(file, formats, signatures.get(name, {}), self._run.context.dataset)
        for export in outcome.failures:
            message = f"{file.name} was not exported as {export.format}: {export.reason}"
            step = self._run.totals.steps - 1
            self._callback_buffer.event(Event.warning("model_not_exported", message, step))
        return {"exports": [path.name for path in outcome.files]}

    def _save(self, folder: Path | None, suffix: str, *, is_best: bool) -> Iterator[Path]:
        run = self._run
        runner, networks = run.runner, run.runner.networks
        if folder is None:
            # Rank 0 takes the rows for the file of weights, and for the models.
            for _ in range(1 if suffix else 2):
                for table in runner.tables.of_models().values():
                    table.finish()
            return
        document = signature_document(run.context.dataset, networks)
        signature = save_signature(document, folder)
        best = self.best_json() if is_best else None
        weights = None if suffix else save_weights(networks, folder, runner.tables.of_models())
        examples = None if suffix else self._examples_file
        report = None if suffix else self._report_file
        tables = runner.tables.of_models()
        files = save_models(
            networks, folder, run.context.dataset.prepared, suffix=suffix, tables=tables
        )
        for file in self._saved(files, suffix):
            facts = {
                "file": file.name,
                "size_bytes": file.stat().st_size,
                "signature": signature.name,
                **({"best_epoch": best["epoch"]} if best is not None else {}),
                **({"weights": weights.name} if weights is not None else {}),
                **({"examples": examples.name} if examples is not None else {}),
                **({"evaluation": report.name} if report is not None else {}),
                **self._exports(file, suffix, document["models"]),
            }
            examples = report = None
            weights = None  # the file has the weights of all networks
            step = run.totals.steps - 1
            self._callback_buffer.event(Event(EventType.MODEL_SAVED, step, facts))
            yield file
