"""ampcore's loop on the problems of a contest, on data of the same sizes as everybody's.

A variant is named `<problem>-<policy>-<loss scale>-<engine>`; the engine `any` tries all of them,
as a job's own trial does. Every step's record is written and handed over.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from contest.problems import CLASSES, LEARNING_RATE, Cnn, Mlp, Sparse, Wide
from contest.serve import Round, serve

from ampcore import JobSpec, data
from ampcore.diagnose import hardware
from ampcore.train.feed import feed_for
from ampcore.train.plan import Plan
from ampcore.train.run import Material
from ampcore.train.session import Session

ENGINES = ("graph", "xla_step", "xla_loop")
LOSS_SCALES = {
    "none": {"mode": "none"},
    "fixed": {"mode": "fixed", "scale": 1024.0},
    "dynamic": {"mode": "dynamic"},
}


def images(problem: Any) -> dict[str, Any]:
    """Synthetic examples of the problem's shape, an epoch of its steps."""
    return {
        "kind": "synthetic",
        "shape": list(problem.INPUT),
        "classes": CLASSES,
        "examples": problem.BATCH * problem.STEPS,
        "batch_size": problem.BATCH,
    }


PROBLEMS: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "mlp": (Mlp.STEPS, {"kind": "mlp", "hidden": list(Mlp.HIDDEN)}, images(Mlp)),
    "wide": (Wide.STEPS, {"kind": "mlp", "hidden": list(Wide.HIDDEN)}, images(Wide)),
    "cnn": (Cnn.STEPS, {"kind": "cnn", "dropout": 0.25, "dense_dropout": 0.5}, images(Cnn)),
    "sparse": (
        Sparse.STEPS,
        {
            **{"kind": "embedding", "slots": 1, "nnz": 1},
            **{"vocabulary": Sparse.VOCABULARY, "dim": Sparse.DIMENSION},
        },
        {
            **{"kind": "synthetic_clicks", "slots": 1, "nnz": 1, "vocabulary": Sparse.VOCABULARY},
            **{"examples": Sparse.TOUCHED * Sparse.STEPS, "batch_size": Sparse.TOUCHED},
        },
    ),
}


def session(problem: str, policy: str, loss_scale: str) -> Session:
    """Everything a job has, before its first step."""
    steps, model, examples = PROBLEMS[problem]
    spec = JobSpec.parse(
        {
            "model": model,
            "data": {**examples, "validation_split": 0.0, "shuffle": False},
            "precision": {"policy": policy},
            "loss_scale": LOSS_SCALES[loss_scale],
            "optimizer": {"kind": "adam", "learning_rate": LEARNING_RATE},
            "train": {"steps": steps, "checkpoint_every_s": None},
        }
    )
    dataset = data.load(spec.data, seed=0)
    plan = Plan.of(spec.train, steps)
    feed = feed_for(dataset, spec.data.batch_size, shuffle=False, seed=0, budget_bytes=2**40)
    facts = hardware.facts(hardware.select("cpu"))
    return Material(spec, dataset, plan, feed, facts).session()


def run(own: Session, engine: Any) -> Round:
    """An epoch in one call of the loop."""
    loop, window = own.loop(engine), own.window(0)

    def trained() -> int:
        return len(loop.run(window.examples, 0, 0, window.end_batch))

    return trained


def prepared(variant: str) -> Round | dict[str, Round]:
    """What competes under a variant's name."""
    problem, policy, loss_scale, engine = variant.split("-")
    own = session(problem, policy, loss_scale)
    if engine != "any":
        return run(own, engine)
    # XLA's convolutions in a compiled loop take seconds a step on a CPU: a job's trial finds out.
    engines = ENGINES[:2] if problem == "cnn" else ENGINES
    return {name: run(own, name) for name in engines}


if __name__ == "__main__":
    variants: dict[str, Callable[[], Any]] = {name: partial(prepared, name) for name in sys.argv}
    serve(variants, "ampcore", "tensorflow-cpu", "keras")
