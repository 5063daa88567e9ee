"""JAX on a GPU, with optax's Adam and a dynamic loss scale written by hand.

A variant is `<problem>-<dtype>-<none|dynamic>-<step|scan>`: a compiled step for each call, or the
whole epoch in one `lax.scan`. Weights are float32, arithmetic is in the dtype.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from compare import problems
from compare.problems import CLASSES, LEARNING_RATE
from compare.serve import TimedRound, serve

GROWTH_INTERVAL = 2000
KEY = jax.random.key(0)
DROPOUT_AFTER = {2: 0.25, 3: 0.5}
"""Dropout rates of the convolutional network, by how many layers came before."""
KERNELS = {
    "cnn": [(3, 3, 1, 32), (3, 3, 32, 64), (9216, 128), (128, CLASSES)],
    "dense4096": [(784, 4096), (4096, 4096), (4096, CLASSES)],
    "dense4095": [(784, 4095), (4095, 4095), (4095, CLASSES)],
}
PROBLEMS: dict[str, tuple[Any, str]] = {
    "cnn512": (problems.Cnn512, "cnn"),
    "cnn4096": (problems.Cnn4096, "cnn"),
    "dense4096": (problems.Dense4096, "dense4096"),
    "dense4095": (problems.Dense4095, "dense4095"),
}


def initial_weights(shapes: Any) -> list[tuple[Any, Any]]:
    """Normal kernels, scaled by what comes in, and zero biases."""
    keys = jax.random.split(KEY, len(shapes))
    fan_in = [shape[0] if len(shape) == 2 else 9 * shape[2] for shape in shapes]
    return [
        (jax.random.normal(key, shape) / size**0.5, jnp.zeros(shape[-1]))
        for key, shape, size in zip(keys, shapes, fan_in, strict=True)
    ]


def logits(weights: Any, x: Any, key: Any, dtype: str, *, has_dropout: bool) -> Any:
    """The network, computed in `dtype`, to float32 logits."""
    x = x.astype(dtype)
    for index, layer in enumerate(weights):
        kernel, bias = (weight.astype(dtype) for weight in layer)
        if kernel.ndim == 4:
            layout = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=layout)
            x = jax.nn.relu(x + bias)
            if index == 1:
                window = (1, 2, 2, 1)
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        else:
            x = x.reshape(x.shape[0], -1) @ kernel + bias
            x = jax.nn.relu(x) if index < len(weights) - 1 else x
        rate = DROPOUT_AFTER.get(index + 1, 0.0) if has_dropout else 0.0
        if rate:
            kept = jax.random.bernoulli(jax.random.fold_in(key, index), 1 - rate, x.shape)
            x = jnp.where(kept, x / jnp.asarray(1 - rate, dtype), jnp.zeros((), dtype))
    return x.astype("float32")


def rounds(variant: str) -> TimedRound:
    """An epoch over batches on the device."""
    name, dtype, loss_scale, mode = variant.split("-")
    problem, network = PROBLEMS[name]
    adam = optax.adam(LEARNING_RATE)

    def step(state: Any, batch: Any) -> Any:
        weights, slots, scale, good, number = state
        x, y = batch
        key = jax.random.fold_in(KEY, number)

        def scaled_loss(weights: Any) -> Any:
            out = logits(weights, x, key, dtype, has_dropout=network == "cnn")
            return scale * optax.softmax_cross_entropy_with_integer_labels(out, y).mean()

        loss, grads = jax.value_and_grad(scaled_loss)(weights)
        grads = jax.tree.map(lambda grad: grad / scale, grads)
        updates, new_slots = adam.update(grads, slots)
        new_weights = optax.apply_updates(weights, updates)
        if loss_scale == "dynamic":
            finite = jnp.stack([jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]).all()
            new_weights, new_slots = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old),
                (new_weights, new_slots),
                (weights, slots),
            )
            good = jnp.where(finite, good + 1, 0)
            grown = jnp.where(good % GROWTH_INTERVAL == 0, scale * 2, scale)
            scale = jnp.where(finite, grown, scale / 2)
        return (new_weights, new_slots, scale, good, number + 1), loss

    weights = initial_weights(KERNELS[network])
    scale = jnp.float32(2.0**15 if loss_scale == "dynamic" else 1.0)
    state = (weights, adam.init(weights), scale, jnp.int32(1), jnp.int32(0))
    x = jax.random.uniform(KEY, (problem.STEPS, problem.BATCH, *problem.INPUT))
    y = jax.random.randint(KEY, (problem.STEPS, problem.BATCH), 0, CLASSES)
    batches = [(x[index], y[index]) for index in range(problem.STEPS)]
    one = jax.jit(step, donate_argnums=0)
    epoch = jax.jit(lambda state, x, y: jax.lax.scan(step, state, (x, y)), donate_argnums=0)

    def run_steps() -> int:
        nonlocal state
        if mode == "scan":
            state, losses = epoch(state, x, y)
            losses.block_until_ready()
        else:
            for batch in batches:
                state, loss = one(state, batch)
            loss.block_until_ready()
        return int(problem.STEPS)

    return run_steps


if __name__ == "__main__":
    serve({name: partial(rounds, name) for name in sys.argv[1:]}, "jax", "optax")
