"""ampcore's loop on the problems of a comparison, with data of the same sizes.

A variant is named `<problem>-<policy>-<loss scale>-<engine>`; the engine `any` tries all of them,
as a job's autotuning does. A problem with the suffix `_keras` is the same network and data, given
to `Trainer.from_keras`. With the loss scale `none` steps that are not finite are not skipped, as in
the peers' loops; `checked` skips them, as jobs do by default. Every step is recorded and passed on,
except in variants with the suffix `-last` or `-silent`: no job runs like that; they show the cost
of the records. AMPCORE_BENCH_DEVICE names the device: `cpu`, or `gpu`.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from compare.problems import (
    CLASSES,
    LEARNING_RATE,
    Cnn,
    Cnn512,
    Cnn4096,
    Dense4095,
    Dense4096,
    Gan,
    Mlp,
    ResNet50,
    Sparse,
    Wide,
)
from compare.serve import TimedRound, serve

from ampcore import JobSpec, data, models
from ampcore.data.feed import feed_for
from ampcore.diagnostics import hardware
from ampcore.models.seeds import step_seed
from ampcore.precision import layer_policies
from ampcore.training.context import RunContext
from ampcore.training.jobs.from_keras import keras_job
from ampcore.training.jobs.job import SpecJob, TrainingJob
from ampcore.training.step.batch_slicing import gather_batch, slice_batch
from ampcore.training.step.plan import Plan
from ampcore.training.step.step_runner import StepRunner
from ampspec.precision.precision import Precision

OWN = "_keras"
DEVICE: Any = os.environ.get("AMPCORE_BENCH_DEVICE", "cpu")
ENGINES = ("graph", "xla_step", "xla_loop")
LOSS_SCALES = {
    "none": {"mode": "none"},
    "checked": {"mode": "none"},
    "fixed": {"mode": "fixed", "scale": 1024.0},
    "dynamic": {"mode": "dynamic"},
}


CNN = {"kind": "cnn", "dropout": 0.25, "dense_dropout": 0.5}


def mlp(problem: Any) -> dict[str, Any]:
    """The spec of a network of dense layers."""
    return {"kind": "mlp", "hidden": list(problem.HIDDEN)}


def images(problem: Any) -> dict[str, Any]:
    """Synthetic examples of the problem's shape, an epoch of its steps."""
    return {
        "kind": "synthetic",
        "shape": list(problem.INPUT),
        "classes": CLASSES,
        "examples": problem.BATCH * problem.STEPS,
        "batch_size": problem.BATCH,
    }


ADAM = {"optimizer": {"kind": "adam", "learning_rate": LEARNING_RATE}}
CLICKS = {"slots": 1, "nnz": 1, "vocabulary": Sparse.VOCABULARY}
PROBLEMS: dict[str, tuple[int, dict[str, Any]]] = {
    **{
        one.__name__.lower(): (one.STEPS, {**ADAM, "model": mlp(one), "data": images(one)})
        for one in (Mlp, Wide, Dense4096, Dense4095)
    },
    **{
        one.__name__.lower(): (one.STEPS, {**ADAM, "model": CNN, "data": images(one)})
        for one in (Cnn, Cnn512, Cnn4096)
    },
    "sparse": (
        Sparse.STEPS,
        {
            **ADAM,
            "model": {"kind": "embedding", "dim": Sparse.DIMENSION, **CLICKS},
            "data": {
                **{"kind": "synthetic_clicks", **CLICKS},
                **{"examples": Sparse.TOUCHED * Sparse.STEPS, "batch_size": Sparse.TOUCHED},
            },
        },
    ),
    "gan": (
        Gan.STEPS,
        {
            "model": {
                **{"kind": "gan", "latent": Gan.LATENT},
                **{"generator": list(Gan.GENERATOR), "discriminator": list(Gan.DISCRIMINATOR)},
            },
            "data": images(Gan),
            "optimizers": {
                "generator": {"kind": "adam", "learning_rate": 1e-3},
                "discriminator": {"kind": "rmsprop", "learning_rate": 1e-4},
            },
        },
    ),
    "resnet50": (
        ResNet50.STEPS,
        {
            **ADAM,
            "model": {"kind": "keras_application", "name": "ResNet50"},
            "data": images(ResNet50),
        },
    ),
}


def build_runner(problem: str, policy: str, loss_scale: str) -> StepRunner:
    """The state of a job before its first step."""
    is_own = problem.endswith(OWN)
    steps, sections = PROBLEMS[problem.removesuffix(OWN)]
    spec = JobSpec.parse(
        {
            **sections,
            "data": {**sections["data"], "validation_split": 0.0, "shuffle": False},
            "precision": {"policy": policy},
            "loss_scale": LOSS_SCALES[loss_scale],
            "guard": {"skip_nonfinite": loss_scale != "none"},
            "train": {"steps": steps, "checkpoint_every_s": None},
        }
    )
    job: TrainingJob = SpecJob(spec)
    if is_own:
        job = own_model_job(spec)
    dataset = job.load_data()
    plan = Plan.from_spec(spec.train, steps)
    feed = feed_for(dataset.train, spec.data.batch_size, shuffle=False, seed=0, budget_bytes=2**40)
    facts = hardware.device_info(hardware.select(DEVICE))
    return RunContext(job, dataset, plan, feed, facts).build_runner()


def own_model_job(spec: JobSpec) -> TrainingJob:
    """The same network as a Keras model, with the same examples as arrays."""
    dataset = data.load(spec.data)
    plain = layer_policies(Precision())
    [network] = models.build(spec.model, dataset.require_signature(), plain).networks
    arrays = dataset.train.arrays
    sections = spec.model_dump(include={"precision", "loss_scale", "guard", "train"})
    return keras_job(
        network.model,
        data=(arrays.x, arrays.y),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        loss_weights=None,
        optimizer=spec.optimizer,
        metrics=(),
        validation_data=None,
        validation_split=0.0,
        batch_size=spec.data.batch_size,
        steps_per_epoch=None,
        shuffle=False,
        sections=sections,
    )


def run(runner: StepRunner, engine: Any) -> TimedRound:
    """An epoch in one call of the loop."""
    loop, window, states = runner.build_loop(engine), runner.window(0), runner.state.scales

    def run_steps() -> int:
        nonlocal states
        states, rows = loop.run(states, window.examples, 0, 0, window.end_batch)
        return len(rows)

    return run_steps


def run_silently(runner: StepRunner, engine: str, *, last: bool) -> TimedRound:
    """An epoch in one call of a loop that keeps the record of its last step, or no record.

    Without a record, XLA and TensorFlow can remove losses, norms and rates from the program.
    """
    xla = engine == "xla_loop"
    step, window, cut = (
        runner.train_step.for_xla() if xla else runner.train_step,
        runner.window(0),
        gather_batch if xla else slice_batch,
    )
    size = window.examples.y.shape[0] // window.end_batch

    def body(index: Any, states: Any, row: Any) -> Any:
        batch = cut(window.examples, index, size)
        states, new = step(states, batch, step_seed(0, tf.cast(index, tf.int64)))
        return index + 1, states, new if last else row

    @tf.function(autograph=False, jit_compile=xla)  # type: ignore[untyped-decorator]
    def loop(states: Any, count: Any) -> Any:
        begun = (tf.constant(0), states, tf.zeros(len(step.columns)))
        return tf.while_loop(lambda index, *_: index < count, body, begun)[1:]

    states, count = runner.state.scales, tf.constant(window.end_batch)

    def run_steps() -> int:
        nonlocal states
        states, _ = loop(states, count)
        states[0].scale.numpy()  # wait for the last step
        return window.end_batch

    return run_steps


def prepared(variant: str) -> TimedRound | dict[str, TimedRound]:
    """The candidate with a variant's name."""
    problem, policy, loss_scale, engine, *silent = variant.split("-")
    runner = build_runner(problem, policy, loss_scale)
    if silent:
        return run_silently(runner, engine, last=silent == ["last"])
    if engine != "any":
        return run(runner, engine)
    return {name: run(runner, name) for name in ENGINES}


if __name__ == "__main__":
    variants: dict[str, Callable[[], Any]] = {name: partial(prepared, name) for name in sys.argv}
    serve(variants, "ampcore", "tensorflow-cpu", "keras")
