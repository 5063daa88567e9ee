"""JAX on the MLP: the whole epoch in one compiled `lax.scan`, Adam from optax.

JAX has no loss scaling of its own: one variant is written by hand, the other uses flax.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from compare.problems import CLASSES, LEARNING_RATE, Mlp, batches
from compare.serve import TimedRound, serve
from flax.training.dynamic_scale import DynamicScale

GROWTH_INTERVAL = 2000


class State(NamedTuple):
    """The carry of the scan."""

    weights: Any
    slots: Any
    scale: Any
    good_steps: Any


def initial_weights() -> list[tuple[Any, Any]]:
    """Glorot-uniform kernels and zero biases."""
    generator = np.random.default_rng(0)
    sizes = [*Mlp.INPUT, *Mlp.HIDDEN, CLASSES]
    layers = []
    for into, out in itertools.pairwise(sizes):
        limit = np.sqrt(6 / (into + out))
        kernel = generator.uniform(-limit, limit, (into, out))
        layers.append((jnp.asarray(kernel, jnp.float32), jnp.zeros(out)))
    return layers


def mean_loss(weights: Any, x: Any, y: Any) -> Any:
    """The mean sparse categorical cross-entropy."""
    for kernel, bias in weights[:-1]:
        x = jax.nn.relu(x @ kernel + bias)
    kernel, bias = weights[-1]
    return optax.softmax_cross_entropy_with_integer_labels(x @ kernel + bias, y).mean()


def plain(state: State, batch: Any) -> tuple[State, Any]:
    """A step without loss scaling."""
    loss, grads = jax.value_and_grad(mean_loss)(state.weights, *batch)
    updates, slots = ADAM.update(grads, state.slots)
    return state._replace(weights=optax.apply_updates(state.weights, updates), slots=slots), loss


def dynamic(state: State, batch: Any) -> tuple[State, Any]:
    """A step with a dynamic loss scale; non-finite gradients change only the scale."""
    scaled, grads = jax.value_and_grad(lambda w: mean_loss(w, *batch) * state.scale)(state.weights)
    grads = jax.tree.map(lambda grad: grad / state.scale, grads)
    finite = jnp.all(jnp.array([jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]))
    updates, slots = ADAM.update(grads, state.slots)
    weights = optax.apply_updates(state.weights, updates)
    weights, slots = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (weights, slots), (state.weights, state.slots)
    )
    good = jnp.where(finite, state.good_steps + 1, 0)
    grow = good >= GROWTH_INTERVAL
    scale = jnp.where(finite, jnp.where(grow, state.scale * 2, state.scale), state.scale / 2)
    return State(weights, slots, scale, jnp.where(grow, 0, good)), scaled / state.scale


def flax_dynamic(state: State, batch: Any) -> tuple[State, Any]:
    """The same with flax's DynamicScale, as flax's own examples use it."""
    grad = state.scale.value_and_grad(mean_loss)
    scale, finite, loss, grads = grad(state.weights, *batch)
    updates, slots = ADAM.update(grads, state.slots)
    weights = optax.apply_updates(state.weights, updates)
    weights, slots = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (weights, slots), (state.weights, state.slots)
    )
    return State(weights, slots, scale, state.good_steps), loss


ADAM = optax.adam(LEARNING_RATE)


def scan(step: Any, scale: Any = 2.0**15) -> TimedRound:
    """An epoch in one call."""
    x, y = (jnp.asarray(part) for part in batches(Mlp))
    epoch = jax.jit(lambda state, x, y: jax.lax.scan(step, state, (x, y)), donate_argnums=0)
    weights = initial_weights()
    state = State(weights, ADAM.init(weights), jax.tree.map(jnp.float32, scale), jnp.int32(0))

    def run_steps() -> int:
        nonlocal state
        state, losses = epoch(state, x, y)
        losses.block_until_ready()
        return Mlp.STEPS

    return run_steps


if __name__ == "__main__":
    serve(
        {
            "mlp": lambda: scan(plain),
            "mlp_dynamic": lambda: scan(dynamic),
            "mlp_flax_dynamic": lambda: scan(flax_dynamic, DynamicScale()),
        },
        "jax",
        "jaxlib",
        "optax",
        "flax",
    )
