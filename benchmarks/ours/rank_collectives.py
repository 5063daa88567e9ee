"""The time of an all-reduce between two ranks in a compiled loop: `rank_collectives.py [DTYPE]`.

DTYPE is the dtype in which the float32 values travel. Rank 0 prints the times.
"""

import json
import statistics
import sys
import time
from typing import Any

import tensorflow as tf

from ampcore import distributed
from ampcore.distributed.compression import mean_in_16_bits

REPEATS = 20
ROUNDS = 15
SIZES = {"4 B": 1, "220 kB": 55_000, "4.8 MB": 1_200_000}
"""Float32 elements by the size of the tensor."""


def main(dtype: Any = "float32") -> None:
    """Measure each size: the median and the fastest of several rounds."""
    communicator = distributed.connect_from_environment()
    found = {}
    for name, elements in SIZES.items():
        tensor = tf.fill([elements], 1.0)
        loop = _loop(communicator, tensor, dtype)
        loop()
        times = [_timed(communicator, loop) / REPEATS for _ in range(ROUNDS)]
        median_s = statistics.median(times)
        found[name] = {
            "ms": round(1e3 * median_s, 3),
            "fastest_ms": round(1e3 * min(times), 3),
            "gb_per_s": round(4 * elements / median_s / 1e9, 3),
        }
    if communicator.rank == 0:
        print(json.dumps(found))
    communicator.close()


def _loop(communicator: Any, tensor: Any, dtype: Any) -> Any:
    pieces = [tensor] if tensor.shape[0] == 1 else tf.split(tensor, 8)

    def exchange(values: Any) -> Any:
        if dtype == "float32":
            return communicator.all_reduce(values)
        return mean_in_16_bits(communicator, values, dtype)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def loop() -> Any:
        def body(step: Any, *values: Any) -> Any:
            return (step + 1, *exchange(values))

        return tf.while_loop(lambda step, *_: step < REPEATS, body, (0, *pieces))

    return loop


def _timed(communicator: Any, loop: Any) -> float:
    communicator.barrier()
    start = time.perf_counter()
    loop()[1].numpy()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
