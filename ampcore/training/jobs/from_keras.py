"""Builds a KerasJob from the arguments of `Trainer.from_keras`."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.checkpoint.state import stable_path
from ampcore.data.local import LocalDataset, local_dataset
from ampcore.keras_internals import flatten_layers, producer
from ampcore.models.example_call import call_on_example
from ampcore.models.supervised import Objective, by_output, flat_outputs, trackers
from ampcore.objectives import as_loss, as_metric
from ampcore.precision.policy import own_policy
from ampcore.training.jobs.keras_job import KerasJob
from ampcore.training.jobs.local_spec import KerasOptimizer, LocalSpec
from ampspec.errors import InvalidData, InvalidModel
from ampspec.objectives.optimizer import Optimizer
from ampspec.training.run import micro_batches

OWN_OPTIMIZERS: Final = ("sgd", "momentum", "adam", "adamw", "rmsprop")
"""The optimizers of ampcore; a name stands for one of them before one of Keras."""


def keras_job(
    model: Any,
    *,
    data: Any,
    loss: Any,
    loss_weights: Any,
    optimizer: Any,
    metrics: Any,
    validation_data: Any,
    validation_split: float,
    batch_size: int | None,
    steps_per_epoch: int | None,
    shuffle: bool,
    sections: Mapping[str, Any],
) -> KerasJob:
    """The job for the arguments of `Trainer.from_keras`; `sections` are those of a spec."""
    check_model(model)
    if loss is None and model.loss is not None:
        raise InvalidModel(
            "loss",
            expected="a loss; that of `compile` is not used: pass loss=model.loss, and the "
            "optimizer and the metrics in the same way",
            received="None",
        )
    if model.run_eagerly:
        warnings.warn(
            "run_eagerly=True of `compile` has no effect: a run compiles its steps, so a print or "
            "a breakpoint in a layer is reached only while they are traced",
            UserWarning,
            stacklevel=3,
        )
    keeps_dtypes = sections.get("precision", {}).get("policy") is None
    if keeps_dtypes:
        precision = {**sections.get("precision", {}), "policy": own_policy(model)}
        sections = {**sections, "precision": precision}
    section, keras_optimizer = optimizer_section(optimizer)
    seed = sections["train"].get("seed", 0)
    examples = local_dataset(
        data,
        validation_data=validation_data,
        validation_split=validation_split,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        shuffle=shuffle,
        seed=seed if isinstance(seed, int) else 0,
    )
    targets = examples.train.spec.y
    arguments = {"loss": loss, "loss_weights": loss_weights, "metrics": metrics}
    by_output = objectives(model, examples.example, targets, **arguments)
    spec = LocalSpec.parse(
        {
            **sections,
            "model": model_section(model),
            "data": data_section(examples, shuffle=shuffle),
            "losses": {
                name: objective.loss.name for name, objective in by_output.items() if objective.loss
            },
            "optimizer": section,
            "name": model.name,
        }
    )
    check_batch_size(examples, micro_batches(spec))
    return KerasJob(model, examples, spec, by_output, keras_optimizer, keeps_dtypes=keeps_dtypes)


def check_model(model: object) -> Any:
    """The model, if it can be trained.

    Raises:
        InvalidModel: It is no keras.Model, not built, has training code of its own, or a layer that
            keeps a state from batch to batch.
    """
    if not isinstance(model, keras.Model):
        raise InvalidModel("model", expected="a keras.Model", received=type(model).__name__)
    if not model.trainable_variables:
        raise InvalidModel(
            "model",
            expected="a built model with trainable variables; call it on an example first, or "
            "begin it with keras.Input",
            received=f"{type(model).__name__} without any",
        )
    for method in ("train_step", "compute_loss"):
        if getattr(type(model), method) is not getattr(keras.Model, method):
            raise InvalidModel(
                "model",
                expected=f"a model without a {method} of its own, which would not be called; give "
                "a function as the loss instead",
                received=type(model).__name__,
            )
    stateful = [
        layer.name
        for layer in flatten_layers(model, include_self=False)
        if isinstance(layer, keras.layers.RNN) and layer.stateful
    ]
    if stateful:
        raise InvalidModel(
            "model",
            expected="recurrent layers with stateful=False: each step begins with new states, "
            "since its examples do not follow on those of the last one",
            received=f"stateful=True in {', '.join(stateful)}",
        )
    return model


def model_section(model: Any) -> dict[str, Any]:
    """The description of a model in a checkpoint."""
    variables = [f"{stable_path(variable)} {list(variable.shape)}" for variable in model.variables]
    return {"kind": "keras", "variables": variables}


def data_section(data: LocalDataset, *, shuffle: bool) -> dict[str, Any]:
    """The description of the data in a checkpoint."""
    return {
        "kind": "local",
        "batch_size": data.batch_size,
        "shuffle": shuffle and not data.is_stream,
        "examples": len(data.train),
        "parts": [f"{spec.dtype.name} {list(spec.shape)}" for spec in data.train.spec.parts],
    }


def optimizer_section(identifier: object) -> tuple[Any, Any | None]:
    """The section of a spec for an optimizer, and the optimizer if it is one of Keras.

    Args:
        identifier: A name, the section of a spec, or an optimizer of Keras.

    Raises:
        InvalidModel: It is none of these, or an optimizer with a loss scale of its own.
    """
    if isinstance(identifier, Optimizer):
        return identifier.model_dump(), None
    if isinstance(identifier, Mapping):
        return dict(identifier), None
    if isinstance(identifier, str) and identifier.lower() in OWN_OPTIMIZERS:
        return {"kind": identifier.lower()}, None
    optimizer: Any = identifier
    if isinstance(identifier, str):
        try:
            optimizer = keras.optimizers.get(identifier)
        except ValueError:
            optimizer = None
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise InvalidModel(
            "optimizer",
            expected="an optimizer without a loss scale, since the run has its own: give the "
            "inner_optimizer",
            received=type(optimizer).__name__,
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidModel(
            "optimizer",
            expected=f"{', '.join(OWN_OPTIMIZERS)}, the name of an optimizer in keras.optimizers, "
            "a keras.optimizers.Optimizer, or a mapping as in a spec",
            received=repr(identifier),
        )
    return _describe(optimizer).model_dump(), optimizer


def has_schedule(optimizer: object) -> bool:
    """Whether the learning rate of the argument `optimizer` follows a schedule."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return isinstance(optimizer._learning_rate, keras.optimizers.schedules.LearningRateSchedule)
    if isinstance(optimizer, Optimizer):
        optimizer = optimizer.model_dump()
    return isinstance(optimizer, Mapping) and bool(optimizer.get("schedule"))


def objectives(
    model: Any, example: Any, y: Any, *, loss: Any, loss_weights: Any, metrics: Any
) -> dict[str, Objective]:
    """The loss and the metrics of each output, by the name of the output.

    Args:
        model: A built keras.Model.
        example: The inputs of one example.
        y: The tf.TensorSpec of each target of one example.
        loss: As of `Trainer.from_keras`, and so are the others.
        loss_weights: The factor of each output's loss.
        metrics: The metrics of each output.

    Raises:
        InvalidModel: A loss or metric is unknown, or belongs to no output, or two metrics have
            the same name.
        InvalidData: The inputs do not match those of the model, or the targets its outputs.
    """
    outputs = _call(model, example)
    _check_flat(outputs)
    predictions = [
        tf.TensorSpec(tensor.shape[1:], tensor.dtype) for tensor in flat_outputs(outputs)
    ]
    names = output_names(model, outputs)
    losses = {
        name: None if argument is None else as_loss(argument, f"loss[{name!r}]")
        for name, argument in _for_outputs(loss, names, "loss").items()
    }
    targets = by_output(y, names)
    _check_targets(names, losses, targets)
    weights = _for_outputs(loss_weights, names, "loss_weights")
    given_metrics = _for_outputs(metrics, names, "metrics", lists_are_values=True)
    per_output = {
        name: Objective(
            losses[name],
            1.0 if weights[name] is None else float(weights[name]),
            tuple(
                as_metric(metric, targets[name], prediction, losses[name], f"metrics[{name!r}]")
                for metric in _as_list(given_metrics[name])
            ),
        )
        for name, prediction in zip(names, predictions, strict=True)
    }
    trackers(per_output)  # checks the names before the run
    return per_output


def _check_flat(outputs: Any) -> None:
    """Raise InvalidModel for lists or dictionaries within the outputs."""
    for output in flat_outputs(outputs):
        if isinstance(output, Mapping | list | tuple):
            raise InvalidModel(
                "model",
                expected="outputs that are a tensor, or one list or dictionary of tensors, such as "
                "keras.Model(model.inputs, keras.tree.flatten(model.outputs))",
                received=f"{type(output).__name__} within a {type(outputs).__name__}",
            )


def _call(model: Any, example: Any) -> Any:
    """The outputs for an example of the data."""
    try:
        return call_on_example(model, example)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        shapes = tf.nest.map_structure(lambda part: (None, *part.shape[1:]), example)
        input_shape = getattr(model, "input_shape", None)
        raise InvalidData(
            "data",
            "x",
            expected="inputs that the model can be called on"
            + (f", {input_shape}" if input_shape else ""),
            received=str(shapes),
        ) from error


def output_names(model: Any, outputs: Any) -> list[str]:
    """The names of a model's outputs, in the order of `flat_outputs`."""
    if isinstance(outputs, Mapping):
        return list(outputs)
    flat = flat_outputs(outputs)
    names = [producer(tensor)[0].name for tensor in getattr(model, "outputs", None) or ()]
    if len(set(names)) == len(flat):
        return names
    return ["output"] if len(flat) == 1 else [f"output_{n}" for n in range(1, len(flat) + 1)]


def check_batch_size(data: LocalDataset, accumulate: int) -> None:
    """Raise InvalidData unless the training examples fill at least one step."""
    step_examples = data.batch_size * accumulate
    if step_examples > len(data.train):
        raise InvalidData(
            "data",
            "batch_size",
            expected=f"at most {len(data.train)} examples in a step"
            + (f" of {accumulate} batches" if accumulate > 1 else ""),
            received=str(step_examples),
        )


def _for_outputs(
    argument: Any, names: Sequence[str], field: str, *, lists_are_values: bool = False
) -> dict[str, Any]:
    """What is given for each output: by name, by position, or the same for all."""
    if isinstance(argument, Mapping):
        if unknown := [name for name in argument if name not in names]:
            raise InvalidModel(
                field, expected=f"outputs of the model: {', '.join(names)}", received=str(unknown)
            )
        return {name: argument.get(name) for name in names}
    is_list = isinstance(argument, list | tuple)
    nested = is_list and any(isinstance(element, list | tuple) for element in argument)
    if is_list and (not lists_are_values or nested):
        if len(argument) != len(names):
            raise InvalidModel(
                field,
                expected=f"one for each output: {', '.join(names)}",
                received=f"a list of {len(argument)}",
            )
        return dict(zip(names, argument, strict=True))
    return dict.fromkeys(names, argument)


def _as_list(argument: Any) -> list[Any]:
    if argument is None:
        return []
    return list(argument) if isinstance(argument, list | tuple) else [argument]


def _check_targets(
    names: Sequence[str], losses: Mapping[str, Any], targets: Mapping[str, Any]
) -> None:
    missing = [name for name in names if losses[name] is not None and name not in targets]
    if missing:
        raise InvalidData(
            "data",
            "y",
            expected=f"targets for the outputs with a loss: {', '.join(missing)}",
            received=f"targets for {', '.join(targets) or 'none'}",
        )
    if unknown := [name for name in targets if name not in names]:
        raise InvalidData(
            "data",
            "y",
            expected=f"targets for the outputs of the model: {', '.join(names)}",
            received=f"targets for {', '.join(unknown)}",
        )


def _describe(optimizer: Any) -> KerasOptimizer:
    try:
        config = dict(optimizer.get_config())
    except NotImplementedError:
        config = {}
    rate = config.pop("learning_rate", None)
    constant = float(rate) if isinstance(rate, int | float) else 1.0
    if not 0 < constant < math.inf:
        raise InvalidModel(
            "optimizer", expected="a learning_rate above 0", received=f"{constant:g}"
        )
    return KerasOptimizer(
        class_name=type(optimizer).__name__,
        config={name: value for name, value in config.items() if _is_plain(value)},
        learning_rate=constant,
        slots_per_weight=_slots_per_weight(optimizer),
    )


def _slots_per_weight(optimizer: Any) -> int | None:
    """The numbers that an optimizer keeps for each weight; None where only its training shows."""
    copy = _copy_of(optimizer)
    if copy is None:
        return None
    count_before = len(copy.variables)
    copy.build([keras.Variable([0.0])])
    return len(copy.variables) - count_before


def _copy_of(optimizer: Any) -> Any | None:
    """An optimizer that creates the same slots; None if there is no configuration of it.

    A class that creates no slots of its own may lack one: that of Keras's class below it will do.
    """
    mine: Any = type(optimizer)
    of_keras: Any = next(base for base in mine.__mro__ if base.__module__.startswith("keras."))
    for creator in (mine, of_keras) if mine.build is of_keras.build else (mine,):
        try:
            return creator.from_config(creator.get_config(optimizer))
        except (NotImplementedError, TypeError, ValueError):
            continue
    return None


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int | float)
