"""A StepBlock as bytes and back: one Arrow IPC stream, compressed with Zstandard."""

import pyarrow as pa

from ampcore.series.block import StepBlock

FIRST_STEP = b"first_step"


def encode(block: StepBlock) -> bytes:
    """The block as a self-describing Arrow stream; every value survives, NaN and inf included."""
    arrays = [pa.array(block[name], from_pandas=False) for name in block.names]
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in zip(block.names, arrays, strict=True)],
        metadata={FIRST_STEP: str(block.first_step).encode()},
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def decode(payload: bytes) -> StepBlock:
    """The block that `encode` made into `payload`. Raises ValueError for other bytes."""
    try:
        with pa.ipc.open_stream(payload) as reader:
            table = reader.read_all()
        first_step = int(table.schema.metadata[FIRST_STEP])
    except (pa.ArrowInvalid, KeyError, TypeError) as error:
        raise ValueError(f"expected an encoded StepBlock, received other bytes: {error}") from None
    return StepBlock(
        first_step,
        {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names},
    )
