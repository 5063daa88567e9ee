"""Reports the epochs of a run to its program: history, progress, callbacks of Keras."""

import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

import keras

from ampcore.callbacks.run_callbacks import RunCallbacks
from ampcore.training.reports.epochs import epoch_logs, stop_by_callback
from ampcore.training.run.run import Run

Verbose = Literal["auto", 0, 1, 2]
"""0: prints nothing; 1: a progress bar; 2: a line for each epoch; auto: 1 on a terminal, else 2."""

PROGRESS_BAR: Final = 1
LINE: Final = 2


class NoReports:
    """Reports nothing of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.epochs: list[int] = []
        """The epochs that have ended, counted from 0; a resumed run begins with a later one."""
        self.history: dict[str, list[float]] = {}
        """The logs of these epochs by name, as in Keras's History."""

    def begin(self) -> None:
        """The training begins."""

    def before_block(self) -> None:
        """The next block of steps begins."""

    def after_block(self) -> None:
        """A block of steps has ended."""

    def end(self) -> None:
        """The training has ended."""


class EpochReports(NoReports):
    """Reports the epochs of a run while it trains.

    Args:
        run: The run, which has not begun.
        callbacks: Callbacks of Keras, which `check_callbacks` has accepted.
        model: The model that the callbacks get.
        verbose: What is printed.
    """

    def __init__(self, run: Run, callbacks: Sequence[Any], model: Any, verbose: Verbose) -> None:
        super().__init__(run)
        is_leader = run.runner.communicator.rank == 0
        self._verbose = _resolved(verbose) if is_leader else 0
        params = {
            "epochs": run.context.plan.epochs,
            "steps": run.context.plan.steps_per_epoch,
            "verbose": self._verbose,
        }
        self._callbacks = RunCallbacks(callbacks if is_leader else (), model, params)
        # Of rank 0, which calls them: a program may give them to that rank alone.
        self._has_callbacks = run.runner.communicator.broadcast_object(bool(callbacks))
        self._bar: Any = None
        self._epoch: int | None = None
        self._logs: dict[str, float] = {}

    def begin(self) -> None:
        """Tell the callbacks that the training begins."""
        self._callbacks.begin(self._optimizer)

    def before_block(self) -> None:
        """Begin an epoch if the next step is in another one than the last step."""
        epoch, _ = self._run.position
        if epoch == self._epoch:
            return
        self._epoch = epoch
        self._callbacks.begin_epoch(epoch, self._optimizer)
        self._share_learning_rate()
        if self._verbose:
            sys.stdout.write(f"Epoch {epoch + 1}/{self._run.context.plan.epochs}\n")
            self._bar = keras.utils.Progbar(
                self._run.context.plan.steps_per_epoch,
                verbose=self._verbose,
                stateful_metrics=["loss"],
            )

    def after_block(self) -> None:
        """Show the progress; at the end of an epoch keep its logs and tell the callbacks.

        The run ends if a callback has set `model.stop_training`.
        """
        if (logs := epoch_logs(self._run)) is None:
            if self._verbose == PROGRESS_BAR:
                done = self._run.position[1]
                self._bar.update(done, [("loss", self._run.totals.epoch.mean_loss)])
            return
        epoch = self._epoch or 0
        self._logs = logs
        self.epochs.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)
        if self._verbose:
            done = self._run.position[1] or self._run.context.plan.steps_per_epoch
            self._bar.update(done, list(logs.items()), finalize=True)
        stops = self._callbacks.end_epoch(epoch, logs, self._optimizer)
        if self._has_callbacks and self._run.runner.communicator.broadcast_object(stops):
            stop_by_callback(self._run)
        self._share_learning_rate()

    def end(self) -> None:
        """Tell the callbacks that the training has ended."""
        self._callbacks.end(self._logs, self._optimizer)
        if self._verbose and self._run.has_stopped_early:
            sys.stdout.write(f"Stopped early after epoch {(self._epoch or 0) + 1}.\n")

    @property
    def _optimizer(self) -> Any:
        # Another one after the run has continued in float32.
        return self._run.runner.train_step.optimizers[0]

    def _share_learning_rate(self) -> None:
        """Give all ranks the learning rate that the callbacks of rank 0 may have assigned."""
        communicator = self._run.runner.communicator
        if communicator.size == 1 or not self._has_callbacks:
            return
        rate = float(self._optimizer.learning_rate)
        shared = communicator.broadcast_object(rate)
        if shared != rate:
            self._optimizer.learning_rate = shared


def _resolved(verbose: Verbose) -> int:
    if verbose != "auto":
        return verbose
    return PROGRESS_BAR if sys.stdout.isatty() else LINE
