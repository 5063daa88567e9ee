"""A gradient tape whose gradients are averaged over the ranks, as `hvd.DistributedGradientTape`."""

from typing import Any, Final, Self

import tensorflow as tf

from ampcore.compat.collectives import all_reduce
from ampcore.distributed import ReduceOp

Average: Final[ReduceOp] = "mean"
"""Of `op` in `all_reduce` and `DistributedGradientTape`: the mean over the ranks."""

Sum: Final[ReduceOp] = "sum"
"""Of `op`: the sum over the ranks."""


class Compression:
    """How gradients are exchanged; only in their dtype."""

    none: Final = "none"
    fp16: Final = "fp16"


class DistributedGradientTape:
    """A tf.GradientTape whose `gradient` combines the gradients of all ranks.

        with tf.GradientTape() as tape:
            scaled_loss = optimizer.get_scaled_loss(loss_of(batch))
        tape = compat.DistributedGradientTape(tape)
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled_loss, variables))
        optimizer.apply_gradients(zip(grads, variables))

    `apply_gradients` of compat.LossScaleOptimizer does not average them again. All ranks call
    `gradient` in the same order.

    Args:
        gradtape: The tape; all other attributes of this object are its own.
        device_dense: Only "".
        device_sparse: Only "".
        compression: Only `Compression.none`.
        sparse_as_dense: Whether to make sparse gradients dense before they are combined.
        op: `Average` or `Sum`.
        unsupported: Other arguments of Horovod, with their defaults.

    Raises:
        ValueError: An argument has a value that is not supported.
    """

    def __init__(
        self,
        gradtape: Any,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        *,
        op: ReduceOp = Average,
        **unsupported: Any,
    ) -> None:
        if op not in (Average, Sum):
            raise ValueError(f"op: expected Average or Sum. Received: {op!r}.")
        devices = {"device_dense": device_dense, "device_sparse": device_sparse}
        _check_defaults({**devices, "compression": compression, **unsupported})
        self._tape = gradtape
        self._sparse_as_dense = sparse_as_dense
        self._op = op

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> Any:
        """The gradients of a target, combined over the ranks.

        Args:
            target: As of tf.GradientTape.
            sources: As of tf.GradientTape: variables, in any nesting.
            output_gradients: As of tf.GradientTape.
            options: As of tf.GradientTape: `unconnected_gradients`.
        """
        grads = self._tape.gradient(target, sources, output_gradients, **options)
        flat = tf.nest.flatten(grads)
        if self._sparse_as_dense:
            flat = [grad if grad is None else tf.convert_to_tensor(grad) for grad in flat]
        return tf.nest.pack_sequence_as(grads, all_reduce(flat, op=self._op))

    def __enter__(self) -> Self:
        """Begin to record."""
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop recording."""
        self._tape.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the tape has, such as `watch`."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._tape, name)


_DEFAULTS: Final[dict[str, Any]] = {
    "device_dense": "",
    "device_sparse": "",
    "compression": Compression.none,
    "gradient_predivide_factor": 1.0,
    "num_groups": 0,
    "groups": None,
    "process_set": None,
    "scale_local_gradients": True,
}
"""What Horovod's arguments must be: there is one group of ranks, and one way to communicate."""


def _check_defaults(arguments: dict[str, Any]) -> None:
    """Refuse what would change the communication.

    Raises:
        TypeError: An argument is unknown.
        ValueError: A value is not the default.
    """
    for name, value in arguments.items():
        if name not in _DEFAULTS:
            raise TypeError(
                f"DistributedGradientTape: expected arguments of Horovod. Received: {name}."
            )
        if value != _DEFAULTS[name]:
            raise ValueError(
                f"{name}: expected {_DEFAULTS[name]!r}, the only supported value. "
                f"Received: {value!r}. Leave it out."
            )
