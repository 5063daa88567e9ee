"""The time of an all-reduce between two ranks, inside a compiled loop; rank 0 prints it."""

import json
import time
from typing import Any

import tensorflow as tf

from ampcore import distributed

REPEATS = 20
ROUNDS = 15
SIZES = {"4 B": 1, "220 kB": 55_000, "4.8 MB": 1_200_000}
"""Float32 elements by the size of the tensor."""


def main() -> None:
    """Measure each size, the fastest of several rounds."""
    replicas = distributed.connect_from_environment()
    found = {}
    for name, elements in SIZES.items():
        tensor = tf.fill([elements], 1.0)
        loop = _loop(replicas, tensor)
        loop()
        seconds = min(_timed(replicas, loop) for _ in range(ROUNDS)) / REPEATS
        found[name] = {
            "ms": round(1e3 * seconds, 3),
            "gb_per_s": round(4 * elements / seconds / 1e9, 3),
        }
    if replicas.rank == 0:
        print(json.dumps(found))
    replicas.close()


def _loop(replicas: Any, tensor: Any) -> Any:
    pieces = [tensor] if tensor.shape[0] == 1 else tf.split(tensor, 8)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def loop() -> Any:
        def body(step: Any, *values: Any) -> Any:
            return (step + 1, *replicas.all_reduce(values))

        return tf.while_loop(lambda step, *_: step < REPEATS, body, (0, *pieces))

    return loop


def _timed(replicas: Any, loop: Any) -> float:
    replicas.barrier()
    start = time.perf_counter()
    loop()[1].numpy()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
