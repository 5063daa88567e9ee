"""The complete state of a run as named arrays, for checkpoints and rollbacks.

The position in the data is not included: the order of the examples and the noise of a step depend
only on the job's seed and the number of the step.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.models.task import Network
from ampcore.precision import LossScaleState, LossScaleStates

Arrays = dict[str, NDArray[Any]]

# Keras numbers unnamed objects with a counter of the process.
_AUTO_NUMBER_SUFFIX: Final = re.compile(r"_\d+(?=/|$)")

_LOSS_SCALE: Final = "/loss_scale/"
_AMAX_HISTORY: Final = "/amax_history/"


def named_variables(
    networks: Sequence[Network], optimizers: Sequence[Any]
) -> Iterator[tuple[str, Any]]:
    """Every variable of a run by a name that is the same in every process.

    The weights and other variables of each network (BatchNorm statistics, dropout seeds), and
    its optimizer's slots, counts and averages; the amax histories of its float8 layers.
    """
    for network, optimizer in zip(networks, optimizers, strict=True):
        parts = {"model": network.model.variables, "optimizer": optimizer.variables}
        for part, variables in parts.items():
            for number, variable in enumerate(variables):
                yield f"{network.name}/{part}/{number}/{stable_path(variable)}", variable
        for scaling in network.float8_scalings:
            yield f"{network.name}{_AMAX_HISTORY}{scaling.name}", scaling.history


def stable_path(variable: Any) -> str:
    """The path of a variable, the same in every process."""
    return _AUTO_NUMBER_SUFFIX.sub("", variable.path)


def capture(
    networks: Sequence[Network],
    optimizers: Sequence[Any],
    states: LossScaleStates,
    leave_out: Container[str] = (),
) -> Arrays:
    """Copy everything that the next step depends on to the host, but for the variables left out."""
    arrays = {
        # The TensorFlow variable's own `numpy` is the only copy; Keras's makes one more.
        name: np.asarray(variable.value.numpy())
        for name, variable in named_variables(networks, optimizers)
        if name not in leave_out
    }
    return arrays | capture_scales(networks, states)


def capture_model(networks: Sequence[Network], weights: Sequence[Sequence[Any]]) -> Arrays:
    """Copy the models to the host, with these values of their trainable variables."""
    values = {
        id(variable): value
        for network, tensors in zip(networks, weights, strict=True)
        for variable, value in zip(network.model.trainable_variables, tensors, strict=True)
    }
    return {
        name: np.array(values.get(id(variable), variable.value).numpy())
        for name, variable in model_variables(networks)
    }


def restore_model(networks: Sequence[Network], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Assign what `capture_model` copied."""
    for name, variable in model_variables(networks):
        variable.assign(arrays[name])


def model_variables(networks: Sequence[Network]) -> Iterator[tuple[str, Any]]:
    """The variables of the models by the names of `capture_model`."""
    for network in networks:
        for number, variable in enumerate(network.model.variables):
            yield f"{network.name}/model/{number}/{stable_path(variable)}", variable


def capture_scales(networks: Sequence[Network], states: LossScaleStates) -> Arrays:
    """Copy the states of the loss scales to the host."""
    return {
        _scale_name(network, field): np.array(value.numpy())
        for network, state in zip(networks, states, strict=True)
        for field, value in state._asdict().items()
    }


def restore(
    networks: Sequence[Network],
    optimizers: Sequence[Any],
    arrays: Mapping[str, NDArray[Any]],
    leave_out: Container[str] = (),
) -> None:
    """Assign what `capture` copied, except for the loss scales; see `scale_states`.

    Rows that arrive from another rank may stand for an array: `distributed.whole_tables.OwnRows`.
    """
    for name, variable in named_variables(networks, optimizers):
        if name in leave_out:
            continue
        array: Any = arrays[name]
        if isinstance(array, np.ndarray):
            variable.assign(array)
        else:
            array.assign_to(variable)


def scale_states(
    networks: Sequence[Network], like: LossScaleStates, arrays: Mapping[str, NDArray[Any]]
) -> LossScaleStates:
    """The states of the loss scales in `arrays`, in the dtypes of `like`."""
    return tuple(
        LossScaleState(
            **{
                field: tf.constant(arrays[_scale_name(network, field)], value.dtype)
                for field, value in state._asdict().items()
            }
        )
        for network, state in zip(networks, like, strict=True)
    )


def with_amax_histories(
    arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, tuple[tuple[int, ...], str]]
) -> Arrays:
    """The arrays with the amax histories that are expected, as after a change of the precision.

    Others are left out; missing ones, and those of another length, start without a record.
    """
    kept = {name: array for name, array in arrays.items() if _AMAX_HISTORY not in name}
    for name, (shape, dtype) in expected.items():
        if _AMAX_HISTORY in name:
            history = arrays.get(name)
            kept[name] = (
                np.zeros(shape, dtype) if history is None or history.shape != shape else history
            )
    return kept


def is_loss_scale(name: str) -> bool:
    """Whether a name in `capture` belongs to the state of a loss scale."""
    return _LOSS_SCALE in name


def _scale_name(network: Network, field: str) -> str:
    return f"{network.name}{_LOSS_SCALE}{field}"
