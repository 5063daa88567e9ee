"""The program of each rank in `test_hanging_rank.py`: rank 1 stops taking part.

Its process still sends heartbeats. It writes what this rank was told into the folder that is its
argument.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

from ampcore import distributed
from tests.waiting import DEADLINE_S

SHORT_S = 1.0
"""How long rank 0 waits for rank 1. To start and to connect, the ranks have more time."""


def told(replicas):
    """What rank 0 is told when it waits for rank 1, in the third step of a loop."""

    @tf.function(autograph=False)
    def loop(steps):
        return tf.while_loop(
            lambda step, _: step < steps,
            lambda step, total: (step + 1, replicas.all_reduce([total + 1.0])[0]),
            (0, tf.zeros(3)),
        )

    loop(tf.constant(2))
    if replicas.rank == 1:
        return replicas._control.failure(DEADLINE_S)
    replicas._watch._timeout_s = SHORT_S
    try:
        loop(tf.constant(1))
    except tf.errors.OpError as error:
        return replicas.explain(error)
    return None


def main():
    folder = Path(sys.argv[1])
    replicas = distributed.connect(distributed.cluster_from_environment())
    failure = told(replicas)
    answer = {"ranks": getattr(failure, "ranks", None), "message": str(failure)}
    (folder / f"rank-{replicas.rank}.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
