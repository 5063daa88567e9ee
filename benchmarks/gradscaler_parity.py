"""Compares ampcore's dynamic loss scale with PyTorch's GradScaler: one JSON line.

Both get the same random sequences of finite and non-finite steps. The constants are PyTorch's;
growth and backoff are equally likely, so that the scale stays where no floor or cap is reached.
"""

import argparse
import json
import os
import random
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from compare import BENCHMARKS, PEERS_PYTHON, report

from ampcore import DynamicLossScale

INITIAL = 2.0**16
INTERVALS = (1, 3, 10, 100, 1000)
STEPS = 2000


def main() -> None:
    """Compare and print; ends with an error where they differ."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    generator, agree, versions = random.Random(0), {}, {}
    for interval in INTERVALS:
        finite = 0.5 ** (1 / interval)
        flags = [generator.random() < finite for _ in range(STEPS)]
        theirs = torch_scales(flags, interval)
        agree[f"growth_interval={interval}"] = our_scales(flags, interval) == theirs["scales"]
        versions = {"tensorflow-cpu": tf.__version__, "torch": theirs["torch"]}
    report("gradscaler_parity", agree=agree, steps=STEPS * len(INTERVALS), versions=versions)
    assert all(agree.values())


def torch_scales(flags: list[bool], interval: int) -> dict[str, object]:
    """The scales of GradScaler for these flags."""
    asked = json.dumps({"flags": flags, "initial": INITIAL, "interval": interval})
    run = subprocess.run(
        [str(PEERS_PYTHON), "-m", "peers.torch_scaler"],
        cwd=BENCHMARKS,
        input=asked,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer: dict[str, object] = json.loads(run.stdout)
    return answer


def our_scales(flags: list[bool], interval: int) -> list[float]:
    """The scale after each step."""
    scale = DynamicLossScale(
        initial=INITIAL, growth_interval=interval, minimum=2.0**-96, maximum=2.0**96
    )

    @tf.function  # type: ignore[untyped-decorator]
    def scales(finite: tf.Tensor) -> tf.Tensor:
        states = tf.scan(scale.adjust, finite, initializer=scale.init())
        return states.scale

    return [float(value) for value in scales(tf.constant(flags)).numpy()]


if __name__ == "__main__":
    main()
