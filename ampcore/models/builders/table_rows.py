"""The initial rows of a table of which a rank owns some: those that the whole table would have.

The numbers of TensorFlow's stateless generator depend on their position alone, so they are drawn in
pieces; a rank never holds the whole table.

Source: Salmon et al. 2011, Parallel Random Numbers: As Easy as 1, 2, 3 (Philox).
"""

from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.distributed.row_shards import RowShard

PIECE_VALUES: Final = 2**22
"""The numbers that are drawn at once: 16 MiB."""
PHILOX: Final = 1
"""The generator, as TensorFlow's operations number it."""
BLOCK: Final = 4
"""The numbers that the generator makes from one value of its counter."""


def assign_initial_rows(table: Any, shard: RowShard, initializer: Any) -> None:
    """Give a rank's part of a table the rows of the whole one.

    Args:
        table: The variable with the rows of this rank, (shard.local_rows, dim).
        shard: The rows of this rank.
        initializer: keras.initializers.RandomUniform with the seed of the whole table.

    Raises:
        TypeError: For another initializer.
    """
    if not isinstance(initializer, keras.initializers.RandomUniform):
        raise TypeError(f"Expected RandomUniform; received {type(initializer).__name__}.")
    width = int(table.shape[1])
    # A piece begins where a value of the counter begins, and with a row of rank 0.
    unit = BLOCK * shard.size
    rows = max(unit, PIECE_VALUES // width // unit * unit)
    key, counter = _generator(initializer.seed)
    low = tf.constant(initializer.minval, tf.float32)
    high = tf.constant(initializer.maxval, tf.float32)
    for start in range(0, shard.rows, rows):
        count = min(rows, shard.rows - start)
        skipped = start * width // BLOCK
        numbers = tf.raw_ops.StatelessRandomUniformV2(
            shape=[count, width],
            key=key,
            counter=counter + tf.constant([skipped, 0], tf.uint64),
            alg=PHILOX,
            dtype=tf.float32,
        )
        rank_rows = (numbers * (high - low) + low)[shard.rank :: shard.size]
        first = start // shard.size
        indices = tf.range(first, first + len(rank_rows))
        rounded = tf.cast(rank_rows, table.dtype)
        table.value.scatter_update(tf.IndexedSlices(rounded, indices))


def _generator(seed: int) -> tuple[Any, Any]:
    """The key and the first counter of the numbers that Keras draws with a seed."""
    seeds = tf.constant([seed % (tf.int32.max - 1), 0], tf.int32)
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seeds)
    return key, counter
