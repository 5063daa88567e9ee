"""Sketch: writes down a network layer by layer, as its builder will make it.

The arithmetic is that of the definitions: a dense layer multiplies inputs × units, a
convolution kernel² × input channels × filters at each place of its output.
"""

import math
from dataclasses import replace
from typing import Final

from ampcore.preflight.layer import Dimension, Layer, Shape, Table, kept_numbers

ATTENTION_PARTS: Final = ("query", "key", "value", "softmax", "dropout", "attention_output")
"""The layers inside Keras's MultiHeadAttention, which numbers some of them."""


class Sketch:
    """The layers of a network so far, and the shape of an example after the last of them.

    A method adds one layer under its path; `pointer` names the field of the spec that decides
    its width, for layers whose products should meet Tensor Cores.
    """

    def __init__(self, network: str, shape: Shape) -> None:
        self._network = network
        self._layers: list[Layer] = []
        self.shape = shape

    def add(self, path: str, kind: str, shape: Shape | None = None, **facts: object) -> None:
        """A layer that gives examples another `shape`, if one is given."""
        after = self.shape if shape is None else shape
        kept = {"kept": kept_numbers(kind, after)}
        self._layers.append(Layer(path, kind, self.shape, after, **kept | facts))  # type: ignore[arg-type]
        self.shape = after

    def dense(
        self, path: str, units: int, pointer: str | None = None, *, inputs: str | None = None
    ) -> None:
        """`units` sums over the last axis, with biases; `inputs` points at what decides it."""
        *places, width = self.shape
        self.add(
            path,
            "Dense",
            (*places, units),
            trainable=(width + 1) * units,
            multiply_adds=math.prod(places) * width * units,
            dimensions=(
                *_dimensions("inputs", width, inputs),
                *_dimensions("units", units, pointer),
            ),
        )

    def conv(
        self,
        path: str,
        filters: int,
        kernel: int,
        pointer: str | None = None,
        *,
        strides: int = 1,
        same: bool = False,
        bias: bool = True,
    ) -> None:
        """A square convolution over (height, width, channels)."""
        *size, channels = self.shape
        trim = 0 if same else kernel - 1
        places = tuple(-(-(length - trim) // strides) for length in size)
        weights = kernel * kernel * channels * filters
        self.add(
            path,
            "Conv2D",
            (*places, filters),
            trainable=weights + filters * bias,
            multiply_adds=math.prod(places) * weights,
            dimensions=_dimensions("filters", filters, pointer),
        )

    def pool(self, path: str, size: int = 2, kind: str = "MaxPooling2D") -> None:
        """The largest of each `size` × `size` places, without what is left at the edges."""
        *places, channels = self.shape
        self.add(path, kind, (*(length // size for length in places), channels))

    def flatten(self, path: str) -> None:
        """All axes as one."""
        self.add(path, "Flatten", (math.prod(self.shape),))

    def batch_norm(self, path: str) -> None:
        """Scale and shift, and the moving mean and variance, which are not trained."""
        channels = self.shape[-1]
        self.add(path, "BatchNormalization", trainable=2 * channels, frozen=2 * channels)

    def embedding(self, path: str, vocabulary: int, dim: int, *, shared: bool = False) -> None:
        """A row of `dim` numbers for each key; `shared`: the same keys in every example."""
        rows = 0 if shared else math.prod(self.shape)
        self.add(path, "Embedding", (*self.shape, dim), trainable=vocabulary * dim, rows=rows)

    def layer_norm(self, path: str) -> None:
        """Scale and shift over the last axis."""
        self.add(path, "LayerNormalization", trainable=2 * self.shape[-1])

    def lstm(self, path: str, units: int, pointer: str, *, inputs: str | None = None) -> None:
        """Four gates at each of T steps: (T, inputs) to (T, units)."""
        steps, width = self.shape
        gates = 4 * units
        self.add(
            path,
            "LSTM",
            (steps, units),
            trainable=gates * (width + units + 1),
            multiply_adds=steps * gates * (width + units),
            # The gates, the cell and the output at every step.
            kept=steps * (gates + 2 * units),
            dimensions=(
                *_dimensions("inputs", width, inputs),
                *_dimensions("units", units, pointer),
            ),
            parts=(f"{path}/lstm_cell",),
        )

    def attention(self, path: str, heads: int, pointer: str) -> None:
        """Self-attention of `heads` heads over (T, dim), with biases."""
        steps, dim = self.shape
        key_size = dim // heads
        inner = heads * key_size
        self.add(
            path,
            "MultiHeadAttention",
            trainable=3 * (dim + 1) * inner + (inner + 1) * dim,
            multiply_adds=4 * steps * dim * inner + 2 * steps * steps * inner,
            kept=kept_in_attention(steps, dim, heads, inner),
            dimensions=(
                Dimension("size of a head", key_size, pointer),
                Dimension("sequence", steps, "/data/sequence"),
            ),
            parts=tuple(f"{path}/{part}" for part in ATTENTION_PARTS),
        )

    def table(self) -> Table:
        """The network; its last layer makes the output."""
        *before, last = self._layers
        return Table(self._network, (*before, replace(last, output=True)))


def _dimensions(name: str, size: int, pointer: str | None) -> tuple[Dimension, ...]:
    return (Dimension(name, size, pointer),) if pointer is not None else ()


def kept_in_attention(steps: int, dim: int, heads: int, inner: int) -> int:
    """Query, key, value and what they make, the scores before and after softmax, the output."""
    return 4 * steps * inner + 2 * heads * steps * steps + steps * dim
