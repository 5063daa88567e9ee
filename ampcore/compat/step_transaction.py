"""One step with several `apply_gradients` calls: all of them are applied, or none is."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf

from ampcore.compat.collectives import Ranks
from ampcore.compat.graph_context import can_read_from, current_graph, describe, is_around
from ampcore.precision import LossScale, LossScaleState, all_finite

Tensor = Any

_SCALED_LOSSES, _FINITE_GROUPS, _NONFINITE_GROUPS = range(3)
"""The positions in the counts of a step."""

_GROUPS: Final = (_FINITE_GROUPS, _NONFINITE_GROUPS)

_NO_SCALED_LOSS: Final = (
    "get_unscaled_gradients: expected a call of get_scaled_loss since the last apply_gradients, "
    "which decided about all groups of gradients before it. Received: none. Unscale all groups "
    "before the first apply_gradients of a step."
)
_NO_GRADIENTS: Final = (
    "apply_gradients: expected gradients of get_unscaled_gradients since the last apply_gradients. "
    "Received: none. Call apply_gradients for all groups of a step in the same tf.function, or for "
    "all of them in eager code."
)


class GroupDecision(NamedTuple):
    """What is decided about one call of `apply_gradients`.

    Attributes:
        applied: A boolean scalar: whether this group is applied.
        state: The next state of the loss scale, for the first group of a step; else None.
        broken: For a later group: whether its gradients are not finite although earlier groups of
            the step were applied. None where that is impossible.
    """

    applied: Tensor
    state: LossScaleState | None
    broken: Tensor | None


class StepTransaction:
    """The calls of one step in order, and the one decision about all of them.

    `begin` (of `get_scaled_loss`), then `add_unscaled` for every group of gradients, then `decide`
    for every group. The first `decide` decides the whole step: from all gradients that were
    unscaled since `begin`, on all ranks. So no group can be unscaled after it.

    The order is checked when the Python code runs: in a tf.function while it is traced, in TF 1
    while the graph is built. The values are tensors of the code that called `begin`.

    A loop may add gradients up and apply them in other code: after a loop inside a tf.function, in
    a branch of its last run, in another tf.function or in eager code. The tensors of the earlier
    gradients are out of reach there. So the step goes on from `step_counts`, which also remembers
    gradients that were not finite and that the loop has replaced before it added them up. Python
    may run once for many steps then, so the order is checked from the counts when the code is run.

    Args:
        loss_scale: The loss scale of all gradients.
        ranks: Returns the ranks that decide together; called in the first `decide`.
        read_state: Reads the state of the loss scale.
        step_counts: An int32 variable with three counts since the last decision: scaled losses,
            groups of gradients that were finite, and groups that were not. None in a session's
            graph, where only dependencies would order its reads and writes.
    """

    def __init__(
        self,
        loss_scale: LossScale,
        ranks: Callable[[], Ranks],
        read_state: Callable[[], LossScaleState],
        step_counts: Any,
    ) -> None:
        self._loss_scale = loss_scale
        self._ranks = ranks
        self._read_state = read_state
        self._step_counts = step_counts
        self._graph: Any = None
        self._state: LossScaleState | None = None
        self._finite: Tensor | None = None
        self._decision: Tensor | None = None
        self._decision_graph: Any = None
        self._checked: list[weakref.ref[Any]] = []
        self._updated: dict[int, str] = {}

    def begin(self) -> LossScaleState:
        """Begin a step, unless one has begun that nothing was applied in yet.

        The second case is a step with several losses, or several micro-batches: gradients of all
        of them decide.

        Returns:
            The state of the loss scale in this step.
        """
        state = self._state
        if state is None or self._decision is not None or not can_read_from(self._graph):
            state = self._go_on_here()
        if self._step_counts is not None:
            self._step_counts.assign_add([1, 0, 0])
        return state

    def state_to_unscale(self) -> LossScaleState:
        """The state that the losses of this step were scaled with.

        Raises:
            RuntimeError: No step has begun, or a group was applied already.
        """
        if self._is_elsewhere(_SCALED_LOSSES):
            state = self._go_on_here()
            has_loss = self._assert_counted(_NO_SCALED_LOSS, _SCALED_LOSSES)
            # XLA drops assertions: NaN skips the step there.
            self._state = state._replace(scale=tf.where(has_loss, state.scale, float("nan")))
        if self._state is None or not can_read_from(self._graph):
            received = "no step" if self._state is None else describe(self._graph)
            raise RuntimeError(
                "get_unscaled_gradients: expected a call of get_scaled_loss before it, in the same "
                f"{_here()}. Received: {received}."
            )
        if self._decision is not None:
            raise RuntimeError(
                "get_unscaled_gradients: expected it for all groups of gradients before the first "
                "apply_gradients of the step, which decides for all groups whether they are "
                "applied. Received: a call after apply_gradients. Unscale all groups first; for "
                "another step call get_scaled_loss first."
            )
        return self._state

    def add_unscaled(self, grads: Sequence[Any]) -> None:
        """Let these unscaled gradients decide, too, whether the step is applied."""
        finite = all_finite(grads)
        self._finite = finite if self._finite is None else tf.logical_and(self._finite, finite)
        self._checked += [weakref.ref(grad) for grad in grads if grad is not None]
        if self._step_counts is not None:
            self._step_counts.assign_add(tf.where(finite, [0, 1, 0], [0, 0, 1]))

    def decide(self, grads: Sequence[Any], variables: Sequence[Any]) -> GroupDecision:
        """Whether the gradients of one group are applied to their variables.

        Raises:
            RuntimeError: There are no unscaled gradients, or a variable was updated already.
        """
        if self._step_counts is not None and is_around(self._graph):
            self._leave_loop()
        elif self._is_elsewhere(*_GROUPS):
            self._go_on_here()
            self._finite = self._assert_counted(_NO_GRADIENTS, *_GROUPS)
        state, finite = self._state, self._finite
        if state is None or finite is None or not can_read_from(self._graph):
            received = "none" if finite is None else f"those of {describe(self._graph)}"
            raise RuntimeError(
                "apply_gradients: expected gradients of get_unscaled_gradients, called in the same "
                f"{_here()} after get_scaled_loss. Received: {received}."
            )
        self._add_updated(variables)
        # Gradients that were changed after unscaling: reduced over ranks, clipped, added up.
        checked_ids = {id(grad) for ref in self._checked if (grad := ref()) is not None}
        unchecked_grads = [
            grad for grad in grads if grad is not None and id(grad) not in checked_ids
        ]
        unchecked_finite = all_finite(unchecked_grads) if unchecked_grads else None
        if self._decision is None:
            if unchecked_finite is not None:
                finite = tf.logical_and(finite, unchecked_finite)
            if self._step_counts is not None:
                nonfinite_groups = self._step_counts.read_value()[_NONFINITE_GROUPS]
                finite = tf.logical_and(finite, nonfinite_groups == 0)
                self._step_counts.assign([0, 0, 0])
            self._decision, self._decision_graph = self._agreed(finite), current_graph()
            return GroupDecision(
                self._decision, self._loss_scale.adjust(state, self._decision), None
            )
        if not can_read_from(self._decision_graph):
            raise RuntimeError(
                "apply_gradients: expected all calls of a step in the same function, branch or "
                "loop body. Received: a call outside of that of the first one."
            )
        if unchecked_finite is None:
            return GroupDecision(self._decision, None, None)
        broken = tf.logical_and(self._decision, tf.logical_not(unchecked_finite))
        return GroupDecision(tf.logical_and(self._decision, unchecked_finite), None, broken)

    def _leave_loop(self) -> None:
        """Go on with a step after the loop or branch that it began in, from variables."""
        self._graph = current_graph()
        self._state = self._read_state()
        self._finite = None if self._finite is None else tf.constant(True)

    def _is_elsewhere(self, *positions: int) -> bool:
        """Whether the step began in code whose tensors are out of reach here.

        In eager code this is also a step after a decision: one that a tf.function has counted at
        the positions, without running Python code.
        """
        if self._step_counts is None or self._state is None:
            return False
        if not can_read_from(self._graph):
            return True
        is_eager = current_graph() is None
        return is_eager and self._decision is not None and bool(self._is_counted(positions))

    def _go_on_here(self) -> LossScaleState:
        """Let the step have its tensors in the present code, and no decision yet."""
        self._graph, self._state = current_graph(), self._read_state()
        self._finite = self._decision = None
        self._checked, self._updated = [], {}
        return self._state

    def _is_counted(self, positions: Sequence[int]) -> Tensor:
        counts = self._step_counts.read_value()
        return tf.add_n([counts[position] for position in positions]) > 0

    def _assert_counted(self, message: str, *positions: int) -> Tensor:
        """Whether anything was counted at the positions since the last decision: else an error.

        Raises:
            RuntimeError: In eager code. A tf.function raises an InvalidArgumentError in each run.
        """
        is_counted = self._is_counted(positions)
        if current_graph() is None and not is_counted:
            raise RuntimeError(message)
        # In a tf.function, what follows does not wait for an assertion by itself.
        with tf.control_dependencies([tf.debugging.Assert(is_counted, [message])]):
            return tf.identity(is_counted)

    def _agreed(self, finite: Tensor) -> Tensor:
        """Whether the gradients of every rank are finite: the same on all ranks."""
        ranks = self._ranks()
        if ranks.size == 1:
            return finite
        # A gradient that stays on its rank, as that of a sharded embedding, tells the others
        # nothing.
        [non_finite] = ranks.all_reduce([tf.where(finite, 0.0, 1.0)], "max")
        return non_finite < 0.5

    def _add_updated(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            if id(variable) in self._updated:
                raise RuntimeError(
                    "apply_gradients: expected each variable once in a step. Received: "
                    f"{_name(variable)} a second time since get_scaled_loss. Call get_scaled_loss "
                    "in every step."
                )
        self._updated |= {id(variable): _name(variable) for variable in variables}


def _here() -> str:
    """The present code, for an error message."""
    graph = current_graph()
    return "eager code" if graph is None else "tf.function or graph"


def _name(variable: Any) -> str:
    return str(getattr(variable, "path", None) or getattr(variable, "name", variable))
