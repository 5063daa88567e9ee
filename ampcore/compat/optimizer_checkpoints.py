"""How a LossScaleOptimizer is saved by tf.train.Checkpoint: as the one of its optimizer's library.

With an inner optimizer of tf_keras it is saved as that optimizer, which has a `loss_scale` besides:
so checkpoints cross over to tf_keras's LossScaleOptimizer and to the optimizer alone, and back.
With one of Keras 3 (or of tf.compat.v1.train) the inner optimizer, the scale and the counter have
the names that they have in Keras 3's LossScaleOptimizer. The number of skipped steps is a value of
the optimizer itself, since none of the others has one.
"""

from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf

from ampcore.compat.graph_context import session_graph
from ampcore.compat.wrapped_optimizer import WrappedOptimizer

_OF_KERAS_3: Final = ("inner_optimizer", "dynamic_scale", "step_counter")
"""Names that only the LossScaleOptimizer of Keras 3 has in a checkpoint."""

_UNUSED_OF_KERAS_3: Final = (
    *("_variables", "_iterations", "_learning_rate"),
    *("_trainable_variables", "_trainable_variables_indices"),
    *("dynamic_scale", "step_counter"),  # where the scale here is fixed
)
"""What the LossScaleOptimizer of Keras 3 saves and does not use: those of the inner one count."""

_SKIPPED: Final = "skipped_steps"


class _SavedScale(tf.Module):  # type: ignore[misc]
    """The loss scale as tf_keras saves it; the names of the attributes are those in checkpoints."""

    def __init__(self, scale: Any, good_steps: Any) -> None:
        super().__init__(name="loss_scale")
        self.current_loss_scale = scale
        self.good_steps = good_steps


class CheckpointedOptimizer(WrappedOptimizer):
    """An inner optimizer whose loss scale is saved and restored with it.

    Args:
        inner_optimizer: As of WrappedOptimizer.
    """

    def __init__(self, inner_optimizer: Any) -> None:
        super().__init__(inner_optimizer)
        self._saved: dict[str, Any] = {}
        self._created_in = session_graph()
        self._skipped_steps: Any = None
        self._step_counts: Any = None

    def _save_scale(self, scale: Any, good_steps: Any) -> None:
        """Let checkpoints contain these variables of a dynamic loss scale."""
        if self._inner.saved_as_itself:
            self._saved = {"loss_scale": _SavedScale(scale, good_steps)}
        else:
            self._saved = {"dynamic_scale": scale, "step_counter": good_steps}

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> dict[str, Any]:
        """What a checkpoint has below this optimizer."""
        inner = self._inner_optimizer
        if save_type != "checkpoint":  # all variables, which the functions of a SavedModel use
            variables = [*self._scale_variables, self._step_counts]
            names = {f"variable_{index}": variable for index, variable in enumerate(variables)}
            return {"inner_optimizer": inner, **names}
        if self._inner.saved_as_itself:
            return {**inner._trackable_children(save_type, **options), **self._saved}
        return {"inner_optimizer": inner, **self._saved}

    def _lookup_dependency(self, name: str, cached: Mapping[str, Any] | None = None) -> Any:
        """What is restored from this name in a checkpoint; None: it does not exist (yet).

        Raises:
            ValueError: The checkpoint is of another kind of optimizer, and would not be restored.
        """
        inner = self._inner_optimizer
        if self._inner.saved_as_itself:
            if name == "base_optimizer":  # of TensorFlow 2.2
                return inner
            trackable = self._saved.get(name) or inner._lookup_dependency(name, cached)
            is_foreign = trackable is None and name in _OF_KERAS_3
        else:
            trackable = {"inner_optimizer": inner, **self._saved}.get(name)
            is_foreign = trackable is None and name not in _UNUSED_OF_KERAS_3
        if is_foreign:
            raise ValueError(
                "restore: expected a checkpoint of a LossScaleOptimizer with an inner optimizer of "
                f"{type(inner).__module__.partition('.')[0]}. Received: one of another optimizer, "
                f"with {name!r}. Wrap an optimizer of the library that saved it; the checkpoint of "
                "an optimizer alone is restored with tf.train.Checkpoint(optimizer="
                "optimizer.inner_optimizer)."
            )
        return trackable

    @property
    def _deferred_dependencies(self) -> Any:
        """What waits for variables that do not exist yet: the inner optimizer creates them."""
        if self._inner.saved_as_itself:
            return self._inner_optimizer._deferred_dependencies
        return super()._deferred_dependencies

    def _create_or_restore_slot_variable(self, **position: Any) -> Any:
        """Restore a slot of the inner optimizer."""
        return self._inner_optimizer._create_or_restore_slot_variable(**position)

    def _serialize_to_tensors(self) -> dict[str, Any]:
        """The values of the optimizer itself in a checkpoint; in a SavedModel variables alone."""
        if session_graph() is not self._created_in:
            return {}
        return {_SKIPPED: self._skipped_steps.read_value()}

    def _restore_from_tensors(self, restored_tensors: dict[str, Any]) -> Any:
        """Take the values from a checkpoint."""
        return self._skipped_steps.assign(restored_tensors[_SKIPPED])

    def __dir__(self) -> list[str]:
        """The names; TensorFlow saves the slots of whatever has a `get_slot_names` among them."""
        has_slots = self._inner.saved_as_itself and hasattr(self._inner_optimizer, "get_slot_names")
        return [*super().__dir__(), *(("get_slot_names", "get_slot") if has_slots else ())]
