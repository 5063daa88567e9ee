"""Calls Keras callbacks at the begin and the end of a run of the trainer, and of its epochs."""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import keras

from ampspec.errors import InvalidModel
from ampspec.objectives.metrics import better
from ampspec.training.training import Best, EarlyStopping

BATCH_METHODS: Final = (
    "on_batch_begin",
    "on_batch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_test_begin",
    "on_test_end",
    "on_test_batch_begin",
    "on_test_batch_end",
)
"""The methods of a callback that a run does not call."""

INSTEAD: Final = {
    "BackupAndRestore": "output_dir=… and resume=True, with which a run resumes exactly",
    "SwapEMAWeights": 'optimizer={"kind": "adam", "ema": {"decay": 0.999}}',
    "TerminateOnNaN": "guard=…: a run skips steps that are not finite, and ends after too many",
    "ProgbarLogger": "verbose=1",
    "LossScaleCallback": "the logs of an epoch, which have loss_scale and skipped_steps",
    "TelemetryCallback": "trainer.run(on_block=…, on_event=…)",
}
"""By the name of a class: what a run has in place of this callback."""

SETS_LEARNING_RATE: Final = (
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
)


class RunCallbacks:
    """The callbacks of a run, with the model that it trains.

    While a callback is called, `model.optimizer` is the optimizer of the run, so that a callback
    can read and assign its learning rate.

    Args:
        callbacks: Callbacks that `check_callbacks` has accepted.
        model: The model.
        params: `epochs`, `steps` and `verbose`, as `fit` passes them.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any, params: Mapping[str, Any]) -> None:
        self._model = model
        self._list = keras.callbacks.CallbackList(list(callbacks), model=model, **params)

    def begin(self, optimizer: Any) -> None:
        """Tell the callbacks that the training begins."""
        self._model.stop_training = False
        with self._with_optimizer(optimizer):
            self._list.on_train_begin()

    def begin_epoch(self, epoch: int, optimizer: Any) -> None:
        """Tell the callbacks that an epoch, counted from 0, begins."""
        with self._with_optimizer(optimizer):
            self._list.on_epoch_begin(epoch)

    def end_epoch(self, epoch: int, logs: Mapping[str, float], optimizer: Any) -> bool:
        """Tell the callbacks that an epoch has ended.

        Args:
            epoch: Its number, counted from 0.
            logs: The loss of the epoch, and what was measured after it.
            optimizer: The optimizer of the run.

        Returns:
            Whether a callback has set `model.stop_training`.
        """
        with self._with_optimizer(optimizer):
            self._list.on_epoch_end(epoch, dict(logs))
        return bool(self._model.stop_training)

    def end(self, logs: Mapping[str, float], optimizer: Any) -> None:
        """Tell the callbacks that the training has ended; `logs` are those of the last epoch."""
        with self._with_optimizer(optimizer):
            self._list.on_train_end(dict(logs))

    @contextmanager
    def _with_optimizer(self, optimizer: Any) -> Iterator[None]:
        # Not an assignment: Keras and TensorFlow would track the optimizer as a part of the model.
        attributes = self._model.__dict__
        compiled = attributes.get("optimizer")
        attributes["optimizer"] = optimizer
        try:
            yield
        finally:
            if compiled is None:
                attributes.pop("optimizer", None)
            else:
                attributes["optimizer"] = compiled


def check_callbacks(callbacks: Any, *, has_schedule: bool) -> list[Any]:
    """The callbacks as a list.

    Args:
        callbacks: One callback or several.
        has_schedule: Whether the learning rate follows a schedule, and cannot be assigned.

    Raises:
        InvalidModel: One of them is no callback of Keras, or a run cannot call it as `fit` does.
    """
    if callbacks is None:
        return []
    items = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    for callback in items:
        _check(callback, has_schedule=has_schedule)
    return items


def _check(callback: Any, *, has_schedule: bool) -> None:
    name = type(callback).__name__
    if not isinstance(callback, keras.callbacks.Callback):
        raise InvalidModel("callbacks", expected="callbacks of Keras", received=repr(callback))
    if name in INSTEAD:
        raise InvalidModel("callbacks", expected=INSTEAD[name], received=name)
    if isinstance(callback, keras.callbacks.ModelCheckpoint) and callback.save_freq != "epoch":
        expected = 'save_freq="epoch"; checkpoints within an epoch are those of output_dir=…'
        received = f"{name} with save_freq={callback.save_freq}"
        raise InvalidModel("callbacks", expected=expected, received=received)
    if isinstance(callback, keras.callbacks.TensorBoard):
        _check_tensorboard(callback)
    if has_schedule and isinstance(callback, SETS_LEARNING_RATE):
        raise InvalidModel(
            "callbacks",
            expected=f"an optimizer with a constant learning rate for {name}, which assigns it",
            received="an optimizer with a schedule",
        )
    if getattr(callback, "mode", None) == "auto":
        # Keras asks the metrics of a compiled model; a run has metrics of its own.
        metric = str(getattr(callback, "monitor", "")).removeprefix("val_")
        callback.mode = better(metric) or "auto"
    if isinstance(callback, keras.callbacks.ModelCheckpoint | keras.callbacks.TensorBoard):
        return
    if methods := [method for method in BATCH_METHODS if _overrides(callback, method)]:
        raise InvalidModel(
            "callbacks",
            expected="callbacks that act at the begin or the end of an epoch or of the training, "
            "since a run computes many steps in one call; trainer.run(on_block=…) gets the values "
            "of every step",
            received=f"{name} with {', '.join(methods)}",
        )


def _check_tensorboard(callback: Any) -> None:
    """Only what TensorBoard writes at the end of an epoch has the same meaning in a run."""
    if callback.update_freq != "epoch" or callback._should_trace:
        raise InvalidModel(
            "callbacks",
            expected='update_freq="epoch" and profile_batch=0; runtime={"profile": …} profiles '
            "steps",
            received="TensorBoard with other values",
        )
    if importlib.util.find_spec("tensorboard") is None:
        raise InvalidModel(
            "callbacks", expected="its package: pip install tensorboard", received="TensorBoard"
        )


def _overrides(callback: Any, method: str) -> bool:
    """Whether the class, or as in a LambdaCallback the object, has this method itself."""
    is_inherited = getattr(type(callback), method) is getattr(keras.callbacks.Callback, method)
    return not is_inherited or method in vars(callback)


def split_early_stopping(
    callbacks: Sequence[Any],
) -> tuple[list[Any], tuple[EarlyStopping, Best, bool] | None]:
    """Take Keras's EarlyStopping out of the callbacks, since a run stops early itself.

    Then the run resumes exactly, and reports the evaluation of the weights that it keeps. The one
    difference to Keras: an evaluation before `start_from_epoch` can be the best one.

    Returns:
        The other callbacks; and `train.early_stopping`, `train.best` and whether the best weights
        are kept, or None without an EarlyStopping.

    Raises:
        InvalidModel: There are two, or one that stops by something else than a metric of the
            validation data.
    """
    # A subclass may do more: it is called, and stops the run with `model.stop_training`.
    early_stoppings = [item for item in callbacks if type(item) is keras.callbacks.EarlyStopping]
    other_callbacks = [
        item for item in callbacks if type(item) is not keras.callbacks.EarlyStopping
    ]
    if not early_stoppings:
        return other_callbacks, None
    if len(early_stoppings) > 1:
        raise InvalidModel(
            "callbacks", expected="one EarlyStopping", received=str(len(early_stoppings))
        )
    [callback] = early_stoppings
    for attribute, is_usable, expected in (
        ("monitor", callback.monitor.startswith("val_"), "a metric of the validation data"),
        ("baseline", callback.baseline is None, "None"),
    ):
        if not is_usable:
            raise InvalidModel(
                "callbacks",
                expected=f"EarlyStopping with {attribute}: {expected}",
                received=repr(getattr(callback, attribute)),
            )
    section = EarlyStopping(
        patience=max(callback.patience, 1),
        min_delta=abs(float(callback.min_delta)),
        start_epoch=callback.start_from_epoch,
    )
    best = Best(metric=callback.monitor, mode=callback.mode)
    return other_callbacks, (section, best, callback.restore_best_weights)
