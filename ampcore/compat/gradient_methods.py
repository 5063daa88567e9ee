"""The methods of Keras 2's optimizers that compute gradients: scaled, and unscaled again."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from ampcore.compat.graph_context import as_written, is_session_graph


class GradientMethods:
    """Steps in one call, from the three methods of a step."""

    @abstractmethod
    def get_scaled_loss(self, loss: Any) -> Any:
        """Begin a step."""

    @abstractmethod
    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients divided by the loss scale."""

    @abstractmethod
    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None, **options: Any
    ) -> Any:
        """Apply one group of gradients."""

    @as_written  # type: ignore[untyped-decorator]
    def minimize(
        self,
        loss: Any,
        var_list: Any = None,
        tape: Any = None,
        *,
        grad_loss: Any = None,
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """A step with one group: scale the loss, take the gradients, unscale and apply them.

        Args:
            loss: As of `compute_gradients`.
            var_list: As of `compute_gradients`.
            tape: As of `compute_gradients`.
            grad_loss: As of `compute_gradients`.
            global_step: As of `apply_gradients`.
            name: As of `apply_gradients`.

        Raises:
            ValueError: As of `compute_gradients`.
        """
        pairs = self.compute_gradients(loss, var_list, tape, grad_loss=grad_loss)
        return self.apply_gradients(pairs, name, global_step=global_step)

    @as_written  # type: ignore[untyped-decorator]
    def compute_gradients(
        self, loss: Any, var_list: Any = None, tape: Any = None, *, grad_loss: Any = None
    ) -> list[tuple[Any, Any]]:
        """Begin a step: the unscaled gradients of a loss, with their variables.

        Args:
            loss: A function that returns the loss; or a tensor: in TF 2 with its tape.
            var_list: The variables, or a function that returns them; None: in a session's graph
                the trainable ones.
            tape: The tf.GradientTape in which the loss was computed.
            grad_loss: A factor for each value of the loss.

        Raises:
            ValueError: In TF 2 there are no variables, or the loss is a tensor without a tape.
        """
        in_session = is_session_graph()
        if not in_session and not callable(loss) and tape is None:
            raise ValueError("tape: expected the tf.GradientTape of the loss. Received: None.")
        if not in_session and var_list is None:
            raise ValueError("var_list: expected the variables. Received: None.")
        with tf.GradientTape() if tape is None else tape as recorded:
            scaled = self.get_scaled_loss(loss() if callable(loss) else loss)
        variables = var_list() if callable(var_list) else var_list
        variables = list(tf.compat.v1.trainable_variables() if variables is None else variables)
        if in_session:
            grads = tf.gradients(scaled, variables, grad_loss)
        else:
            grads = recorded.gradient(scaled, variables, grad_loss)
        return list(zip(self.get_unscaled_gradients(grads), variables, strict=True))

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """Begin a step: the unscaled gradients of a tensor, in a graph.

        Raises:
            RuntimeError: In eager code, where a tensor does not know how it was computed.
            ValueError: The loss does not depend on a variable.
        """
        if tf.executing_eagerly():
            raise RuntimeError(
                "get_gradients: expected it in a graph. Received: a call in eager code; write "
                "compute_gradients(loss, variables, tape) with the tf.GradientTape of the loss."
            )
        params = list(params)
        grads = tf.gradients(self.get_scaled_loss(loss), params)
        missing = [param.name for grad, param in zip(grads, params, strict=True) if grad is None]
        if missing:
            raise ValueError(
                f"params: expected variables that the loss depends on. Received: {missing}."
            )
        return list(self.get_unscaled_gradients(grads))

    def get_updates(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """The operation of a step in a graph, in a list.

        Raises:
            RuntimeError: As of `get_gradients`.
            ValueError: As of `get_gradients`.
        """
        pairs = zip(self.get_gradients(loss, params), params, strict=True)
        return [self.apply_gradients(pairs)]
