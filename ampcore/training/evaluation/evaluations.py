"""The evaluations of a run: after which steps, which was the best, whether the run ends early."""

from collections.abc import Iterator

from ampcore.checkpoint.state import Arrays
from ampcore.data import Examples
from ampcore.data.batches import BatchSource
from ampcore.models.task import Task
from ampcore.phase_scopes import phase_span
from ampcore.phases import Phase
from ampcore.training.context import RunContext
from ampcore.training.evaluation.best_evaluation import BestState, best_evaluation
from ampcore.training.evaluation.evaluate import Evaluation, Evaluator
from ampcore.training.evaluation.totals import Totals
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry import Event
from ampspec.training.run import RunSpec


class RunEvaluations:
    """Evaluates a run between its blocks; of several ranks the first one, for all.

    Where ranks have different rows of a table, all of them evaluate the same examples together.

    Args:
        context: The examples, and after which steps the run evaluates; a replay never does.
        task: What the run trains.
    """

    def __init__(self, context: RunContext, task: Task) -> None:
        self._spec, self._plan = context.job.spec, context.plan
        self._communicator = context.communicator
        self._validation = validation = None if context.is_replay else context.dataset.validation
        self.use_task(task)
        self.best = (
            None
            if context.is_replay
            else best_evaluation(self._spec.train, task, has_validation=validation is not None)
        )
        """Compares the evaluations; None if the spec does not ask for the best one."""
        self.best_arrays: Arrays | None = None
        """The weights of the best evaluation, if the spec keeps them."""

    def use_task(self, task: Task) -> None:
        """Evaluate this task from now on."""
        validation = self._validation
        self._evaluator = (
            None
            if validation is None or not (self._communicator.rank == 0 or task.shards())
            else Evaluator(task, validation, _batch_size(validation, self._spec))
        )

    @property
    def state(self) -> BestState | None:
        """What the next comparison depends on; part of checkpoints."""
        return self.best.state if self.best is not None else None

    @property
    def has_stopped_early(self) -> bool:
        """Whether the run has ended because its evaluations no longer improved."""
        return self.best is not None and self.best.has_stopped

    def evaluates_after(self, steps: int) -> bool:
        """Whether the run is evaluated after so many steps."""
        return self._validation is not None and self._plan.evaluates_after(steps)

    def after_block(self, runner: StepRunner, totals: Totals) -> Iterator[Event]:
        """Evaluate if the plan says so; the result becomes part of the totals."""
        if self.evaluates_after(totals.steps):
            yield from self._evaluate(runner, totals)

    def before_early_end(self, runner: StepRunner, totals: Totals) -> Iterator[Event]:
        """Evaluate the weights of a run that ends now, if the plan does not."""
        if self._validation is not None and not self._plan.evaluates_after(totals.steps):
            yield from self._evaluate(runner, totals)

    def _evaluate(self, runner: StepRunner, totals: Totals) -> Iterator[Event]:
        with phase_span(Phase.EVALUATION):
            local_evaluation = self._evaluator and self._evaluator(runner.weights.evaluated())
        # The same numbers decide on all ranks whether the run ends early.
        evaluation: Evaluation = self._communicator.broadcast_object(local_evaluation)
        yield totals.keep(evaluation, is_best=self._is_best(evaluation, runner, totals.steps))
        if self.best is not None and self.best.has_stopped:
            yield self.best.stopped_event(
                self.last_epoch(self.best.state.steps), self.last_epoch(totals.steps)
            )

    def _is_best(self, evaluation: Evaluation, runner: StepRunner, steps: int) -> bool:
        """Whether the evaluation is the best so far; then its weights are kept if needed."""
        if self.best is None:
            return False
        epochs, _ = self._plan.position(steps)
        is_last = steps >= self._plan.total_steps
        is_best = self.best.observe(evaluation, steps=steps, epochs=epochs, is_last=is_last)
        if is_best and self.best.keeps_weights:
            self.best_arrays = runner.weights.capture()
        return is_best

    def last_epoch(self, done: int) -> int:
        """The epoch of the last of `done` steps, counted from 0."""
        epoch, _ = self._plan.position(max(done - 1, 0))
        return epoch

    def restore(self, saved: BestState | None, arrays: Arrays | None, steps: int) -> None:
        """Continue after a checkpoint of so many steps, with its best weights."""
        if self.best is None:
            return
        epochs, _ = self._plan.position(steps)
        has_weights = arrays is not None
        is_used = self.best.restore(saved, steps=steps, epochs=epochs, has_weights=has_weights)
        if is_used and self.best.keeps_weights:
            self.best_arrays = arrays


def _batch_size(validation: Examples | BatchSource, spec: RunSpec) -> int:
    """The examples of a batch; batches that arrive have a size of their own."""
    return validation.batch_size if isinstance(validation, BatchSource) else spec.data.batch_size
