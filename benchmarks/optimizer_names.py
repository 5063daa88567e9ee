"""Speed of `optimizer="adam"` against `keras.optimizers.Adam()` in from_keras: one JSON line."""

import argparse
import json
from collections import defaultdict
from statistics import median
from typing import Any, Final

import keras
import numpy as np

import ampcore

ROUNDS: Final = 5
ROWS, WIDTH, BATCH = 4096, 64, 64
ENGINES: Final = ("graph", "xla_step", "xla_loop")
OPTIMIZERS: Final[dict[str, type[Any]]] = {
    "sgd": keras.optimizers.SGD,
    "adam": keras.optimizers.Adam,
    "adamw": keras.optimizers.AdamW,
    "rmsprop": keras.optimizers.RMSprop,
}


def train(optimizer: Any, engine: str, x: Any, y: Any) -> tuple[float, float]:
    """Examples per second, and the last loss, of an MLP in mixed_bfloat16."""
    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(128, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((WIDTH,)), *hidden, keras.layers.Dense(2)])
    result = ampcore.Trainer.from_keras(
        model,
        x,
        y,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=optimizer,
        batch_size=BATCH,
        epochs=8,
        verbose=0,
        policy="mixed_bfloat16",
        runtime={"engine": engine},
        telemetry={"ranges": {"enabled": False}},
    ).run()
    return result.examples_per_s, result.final_loss


def main() -> None:
    """Measure in turns, and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    x = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    speeds, losses = defaultdict(list), {}
    for engine in ENGINES:
        for _ in range(ROUNDS):
            for name, optimizer in OPTIMIZERS.items():
                for kind, argument in (("name", name), ("object", optimizer())):
                    speed, loss = train(argument, engine, x, y)
                    speeds[f"{name}-{engine}", kind].append(speed)
                    losses[f"{name}-{engine}-{kind}"] = loss
    runs = dict.fromkeys(run for run, _ in speeds)
    ratios = {run: median(speeds[run, "name"]) / median(speeds[run, "object"]) for run in runs}
    document = {"name_over_object": ratios, "final_loss": losses, "rounds": ROUNDS}
    print(json.dumps({"benchmark": "optimizer_names", **document}))


if __name__ == "__main__":
    main()
