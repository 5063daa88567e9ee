"""Trainer: trains one job spec, from loading the data to saving the model."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Self, Unpack

from ampcore.checkpoint.saver import FOLDER
from ampcore.diagnostics import hardware
from ampcore.distributed import Cluster, cluster_from_environment
from ampcore.profile.recorder import ProfileRecorder, ProfileRequest
from ampcore.training.callback_buffer import CallbackBuffer, OnActivity, OnBlock, OnEvent
from ampcore.training.context import RunContext
from ampcore.training.explain.untrained_job import UntrainedJob
from ampcore.training.jobs.from_keras import has_schedule, keras_job
from ampcore.training.jobs.job import TrainingJob
from ampcore.training.jobs.keras_arguments import (
    LossScaleArgument,
    Sections,
    add_early_stopping,
    examples_argument,
    loss_scale_section,
    section_documents,
    set_once,
)
from ampcore.training.jobs.training_job import training_job
from ampcore.training.ranks.agreement import check_rank_count
from ampcore.training.ranks.connection import check_connected, only_own_events, with_ranks_of
from ampcore.training.reports.epoch_reports import EpochReports, NoReports, Verbose
from ampcore.training.result.model_selection import ModelSelection
from ampcore.training.result.train_result import TrainResult
from ampcore.training.run.prepared_context import prepared_context
from ampcore.training.run.run import Run
from ampcore.training.run.saving import save_at_end
from ampcore.training.run.start import start_or_resume
from ampcore.training.state.model_weights import parameters
from ampcore.training.train_loop import train
from ampspec.errors import (
    NonFiniteLoss,
    NonFiniteResult,
    RankDisconnected,
    RankFailed,
    RanksDiffer,
    SkipBudgetExceeded,
    TrainingError,
)
from ampspec.jobs import JobSpec
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import Policy
from ampspec.telemetry.activities import Activity

ShouldStop = Callable[[], bool]

SAME_ON_ALL_RANKS: Final = (NonFiniteLoss, NonFiniteResult, SkipBudgetExceeded)
"""The errors that all ranks find at the same step: then they can still save together."""


class Trainer:
    """Trains the job of a spec on this machine; `from_keras` trains your Keras model.

    Args:
        job: The spec of the job to train, or another kind of job.
        data_root: The folder that a path in the spec is relative to and cannot leave; None: any
            path is allowed.
        output_dir: The folder for the trained model and the checkpoints; None: they are not saved.
        resume: Resume from the newest checkpoint in `output_dir`; from the beginning without one.
        datasets: The local file of each dataset that the spec may name.
        bundle: The folder with the code of a `model: {kind: bundle}`. It is imported as it is:
            only a worker confines it.
        init: A local safetensors file with the weights to start from, such as the
            `weights.safetensors` of another run; `init` in the spec says which layers take them.
        cluster: The ranks that train the job together, and which of them this process is; None:
            those of `ampcore.distributed.cluster_from_environment()`, if there are several. Rank 0
            calls back, evaluates and saves; another rank passes on only the event that it has
            started.

    Raises:
        TypeError: `job` is neither a spec nor another kind of job.
    """

    def __init__(
        self,
        job: JobSpec | TrainingJob,
        data_root: str | Path | None = None,
        output_dir: str | Path | None = None,
        *,
        resume: bool = False,
        datasets: Mapping[str, str | Path] | None = None,
        bundle: str | Path | None = None,
        init: str | Path | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        files = {name: Path(file) for name, file in (datasets or {}).items()}
        self._job = training_job(
            job,
            data_root=None if data_root is None else Path(data_root),
            datasets=files,
            bundle=None if bundle is None else Path(bundle),
            init=None if init is None else Path(init),
        )
        self.spec = self._job.spec
        self._resume = resume
        self._cluster = cluster or cluster_from_environment()
        self._output_dir = None if output_dir is None or not self._is_leader else Path(output_dir)
        self._current_run: Run | None = None
        self._reports: Callable[[Run], NoReports] = NoReports
        self._profile_requests: SimpleQueue[ProfileRequest] = SimpleQueue()

    @classmethod
    def from_keras(
        cls,
        model: Any,
        x: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        data: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        optimizer: Any = "adam",
        metrics: Any = (),
        validation_data: Any = None,
        validation_split: float = 0.0,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        epochs: int = 1,
        shuffle: bool = True,
        callbacks: Any = None,
        verbose: Verbose = "auto",
        policy: Policy | None = None,
        loss_scale: LossScaleArgument | None = None,
        output_dir: str | Path | None = None,
        resume: bool = False,
        cluster: Cluster | None = None,
        **sections: Unpack[Sections],
    ) -> Self:
        """A trainer of your Keras model, with the arguments of `compile` and `fit`.

            trainer = ampcore.Trainer.from_keras(
                model,
                x,
                y,
                loss="sparse_categorical_crossentropy",
                metrics=["accuracy"],
                validation_data=(x_val, y_val),
                batch_size=128,
                epochs=5,
                policy="mixed_float16",
            )
            result = trainer.run()
            print(result.history["val_loss"])

        The run trains the model itself, in the same way as a job. If it fails or is stopped, the
        model and the optimizer get back the values that they had. `fit` is not called, nor is a
        `train_step`.

        Args:
            model: A built keras.Model with any inputs and outputs. The outputs are those that the
                losses expect: logits, or probabilities.
            x: Inputs: an array, or a dictionary, list or tuple of arrays; or, without `y`, batches
                of inputs, targets and weights: a tf.data.Dataset, a keras.utils.PyDataset, or a
                generator, with which a run cannot resume.
            y: Targets, in the same forms as arrays.
            sample_weight: The weight of each example, or of each output's examples.
            data: In place of `x`: (x, y), (x, y, sample_weight) or batches.
            loss: A name of Keras, a keras.losses.Loss or a function of (targets, predictions); for
                several outputs a dictionary by name or a list. None: only losses of layers.
            loss_weights: The factors of the outputs' losses in the total; None: 1.
            optimizer: A name, a mapping as in a spec, or an optimizer of Keras, which is used
                itself, with the slots that it has. The names sgd, momentum, adam, adamw and rmsprop
                stand for ampcore's optimizers, which are faster.
            metrics: Names, objects and functions as of Keras; for several outputs by name.
            validation_data: Examples for validation, in one of the forms of `data`.
            validation_split: The share of arrays that is split off at the end for validation.
            batch_size: For arrays, the examples of a micro-batch; None: 32.
            steps_per_epoch: For endless batches and generators, the batches of an epoch, all of
                one size.
            epochs: How often the data is trained on.
            shuffle: Whether arrays, and the batches of a PyDataset, have a new order in each epoch.
            callbacks: Callbacks of Keras, called at the begin and the end of the training and of
                each epoch; one that acts on batches is refused. EarlyStopping becomes
                `train.early_stopping`. The state of the others is no part of a checkpoint.
            verbose: 0: nothing is printed; 1: a progress bar; 2: a line for each epoch; "auto": 1
                on a terminal, else 2.
            policy: The precision policy, as in a spec: `mixed_float16`, `mixed_bfloat16`, `auto`,
                …; None: that of the model, whose layers keep their dtypes. A model that was created
                in float32 trains in float32.
            loss_scale: A mode, the number of a fixed scale, a loss scale such as
                `ampcore.DynamicLossScale(…)`, or a mapping as in a spec; None: the default of the
                policy.
            output_dir: The folder for the trained model and the checkpoints; None: not saved.
            resume: Resume from the newest checkpoint in `output_dir`.
            cluster: The ranks that train together, see the class; with a default `runtime` as
                many as it has. None: those of `ampcore.distributed.cluster_from_environment()`, if
                there are several. The program connects with them before it creates the model.
            **sections: Further settings, by the section of a spec: `precision`, `train`, `guard`,
                `diagnostics`, `runtime` and `telemetry`, each an object such as
                `ampcore.Train(seed=1, accumulate=4)` or a mapping. Their fields `overrides`,
                `float8`, `tf32`, `best`, `early_stopping` and `keep` are arguments, too.

        Raises:
            InvalidModel: The model, a loss, a metric, the optimizer or a callback cannot be used;
                or the model of a rank was created before this process connected with the others.
            InvalidData: The data has another form.
            SpecValidationError: A setting is not valid.
            TypeError: There is no such argument.
        """
        cluster = cluster or cluster_from_environment()
        check_connected(cluster)
        documents = section_documents(sections)
        documents["runtime"] = with_ranks_of(cluster, documents["runtime"])
        set_once(documents["precision"], "precision", "policy", policy, None)
        set_once(documents["train"], "train", "epochs", epochs, 1)
        if loss_scale is not None:
            documents["loss_scale"] = loss_scale_section(loss_scale)
        run_callbacks = add_early_stopping(
            documents["train"], callbacks, has_schedule=has_schedule(optimizer)
        )
        job = keras_job(
            model,
            data=examples_argument(x, y, sample_weight, data),
            loss=loss,
            loss_weights=loss_weights,
            optimizer=optimizer,
            metrics=metrics,
            validation_data=validation_data,
            validation_split=validation_split,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            shuffle=shuffle,
            sections=documents,
        )
        trainer = cls(job, output_dir=output_dir, resume=resume, cluster=cluster)
        trainer._reports = lambda run: EpochReports(run, run_callbacks, model, verbose)
        return trainer

    @property
    def _is_leader(self) -> bool:
        """Whether this process is rank 0, or trains alone."""
        return self._cluster is None or self._cluster.rank == 0

    @property
    def scale_health(self) -> str | None:
        """The health of the loss scale; None before the run begins."""
        return self._current_run.diagnostics.scale_health if self._current_run else None

    @property
    def input_s(self) -> float:
        """Seconds that the steps of the run have waited for examples."""
        return self._current_run.runner.input_s if self._current_run else 0.0

    def request_profile(self, steps: int) -> None:
        """Profile the next steps of the run; may be called from another thread.

        The report is an event of type `profile`, and files below `profile` in the output folder.

        Args:
            steps: How many steps to profile.
        """
        self._profile_requests.put(ProfileRequest(None, steps))

    def untrained(self) -> UntrainedJob:
        """The job before its first step, to measure it without training.

        Raises:
            TrainingError: The data or the model cannot be loaded.
        """
        with prepared_context(self._job) as context:
            runner = context.build_runner()
            self._job.set_initial_weights(runner.task)
            return UntrainedJob(context, runner)

    first_step = untrained
    """The name in earlier versions."""

    def run(
        self,
        on_block: OnBlock | None = None,
        on_event: OnEvent | None = None,
        should_stop: ShouldStop | None = None,
        on_activity: OnActivity | None = None,
    ) -> TrainResult:
        """Train, and call back with every block of steps and every event.

        Seeds Python, NumPy and TensorFlow with `train.seed`: on a CPU, two runs of one spec with
        the same engine are equal bit for bit.

        Args:
            on_block: Called with each block of steps.
            on_event: Called with each event.
            should_stop: Called between blocks; when it returns true, the result is `stopped`.
            on_activity: Called with what the run does from now on: it compiles, trains, …

        Raises:
            TrainingError: The run failed, for the reason in its `reason`.
        """
        if self._is_leader:
            callback_buffer = CallbackBuffer(on_block, on_event, on_activity)
        else:
            callback_buffer = CallbackBuffer(None, only_own_events(on_event))
        check_rank_count(self.spec, 1 if self._cluster is None else self._cluster.size)
        with prepared_context(self._job, self._cluster) as context:
            try:
                with self._job.lent_model() as keep_trained:
                    result = self._train(context, callback_buffer, should_stop or (lambda: False))
                    if not result.stopped:
                        keep_trained()
                    return result
            finally:
                callback_buffer.flush()

    def _train(
        self, context: RunContext, callback_buffer: CallbackBuffer, should_stop: ShouldStop
    ) -> TrainResult:
        folder = self._output_dir and self._output_dir / FOLDER
        recorder = self._profile_recorder(context.device)
        run = start_or_resume(context, folder, callback_buffer, recorder, resume=self._resume)
        self._current_run = run
        reports = self._reports(run)
        started_at = time.perf_counter()
        if not run.diagnostics.is_sample_due(run.totals.steps):  # which comes first
            callback_buffer.activity(Activity.TRAINING)
        try:
            train(run, reports, should_stop)
        except (RankDisconnected, RankFailed, RanksDiffer):
            # The state may be that of the middle of a block, or not the one of all ranks.
            raise
        except TrainingError as error:
            # After the cause is fixed, the job can resume from there.
            if not context.job.shards_tables or isinstance(error, SAME_ON_ALL_RANKS):
                save_at_end(run)
            raise
        finally:
            # A failed run needs it most.
            run.emit(run.scale_table())
            run.emit(run.ranks.at_end(run.totals.steps - 1))
            run.recorder.abandon()
        train_s = time.perf_counter() - started_at
        if not run.is_done or context.spec.train.checkpoint_every_s is not None:
            save_at_end(run)
        peak_memory = hardware.peak_memory(context.device.kind)
        result = self._result(run, train_s, peak_memory.bytes, callback_buffer)
        return replace(result, history=reports.history, epochs=tuple(reports.epochs))

    def _saves_model(self, run: Run) -> bool:
        """Whether the trained model is saved: by this rank, or by rank 0 with rows of this one."""
        saves = self._output_dir is not None
        runner = run.runner
        return bool(runner.communicator.broadcast_object(saves)) if runner.tables.shards else saves

    def _profile_recorder(self, device: DeviceInfo) -> ProfileRecorder:
        profile = self.spec.runtime.profile
        requests = [ProfileRequest(profile.start, profile.steps)] if profile is not None else []
        return ProfileRecorder(device, self._output_dir, requests, self._profile_requests)

    def _result(
        self, run: Run, train_s: float, peak_memory_bytes: int, callback_buffer: CallbackBuffer
    ) -> TrainResult:
        runner, totals = run.runner, run.totals
        selection = ModelSelection(run, self.spec.train.keep, callback_buffer)
        if run.is_done:
            selection.assign()
        if run.is_done:
            callback_buffer.activity(Activity.EVALUATING)
        selection.evaluate_examples(self._output_dir)
        files: tuple[Path, ...] = ()
        best_files: tuple[Path, ...] = ()
        if run.is_done and self._saves_model(run):
            callback_buffer.activity(Activity.SAVING)
            files = tuple(selection.save(self._output_dir))
            best_files = tuple(selection.save_best(self._output_dir))
        metrics = selection.metrics() if run.is_done else totals.evaluation
        return TrainResult(
            steps=totals.steps,
            skipped=totals.skipped,
            final_loss=totals.final_loss,
            final_loss_scale=runner.state.smallest_scale,
            val_loss=metrics.get("val_loss"),
            val_accuracy=metrics.get("val_accuracy"),
            examples_per_s=totals.examples_per_s,
            parameters=parameters(runner.task),
            train_s=train_s,
            peak_memory_bytes=peak_memory_bytes,
            policy=runner.policies.name,
            tf32=self.spec.precision.tf32 and run.context.device.has_tf32,
            engine=runner.engine,
            scale_health=run.diagnostics.scale_health,
            weights_digest=runner.weights.digest(),
            model_files=files,
            stopped=not run.is_done,
            metrics=metrics,
            constant_metrics=selection.constant_metrics,
            best=selection.best_json(),
            stopped_early=selection.stopped_json(),
            best_model_files=best_files,
            ranks=run.ranks.times.to_json() if run.runner.communicator.size > 1 else None,
            global_batch_size=runner.train_step.shard.total * self.spec.data.batch_size,
        )
