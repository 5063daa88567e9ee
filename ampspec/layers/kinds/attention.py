"""Attention over sequences: inputs are query, value and key; one input is all three.

With two inputs the value is the key, too.
"""

import math
from typing import ClassVar, Final, Literal

from ampspec.layers.base import KernelLayer, Layer
from ampspec.layers.fields import Count, Rate
from ampspec.layers.inference import Inference, Shape, ShapeError, require_rank

AXES: Final = "steps, features"
ATTENTION_LAYERS: Final = (
    "AdditiveAttention",
    "Attention",
    "GroupQueryAttention",
    "MultiHeadAttention",
)
"""The layers that take one input as query, value and key."""
ATTENTION_PARTS: Final = ("query", "key", "value", "softmax", "dropout", "attention_output")
"""The Keras layers inside an attention with heads; Keras numbers some of them."""


def count_attention_activations(steps: int, dim: int, heads: int, inner: int) -> int:
    """Query, key, value and their result; the scores before and after softmax; the output."""
    return 4 * steps * inner + 2 * heads * steps * steps + steps * dim


class _Attention(Layer):
    input_count: ClassVar[tuple[int, int]] = (1, 3)
    call_fields: ClassVar[frozenset[str]] = frozenset({"use_causal_mask"})
    dropout: Rate = 0.0
    """The dropout rate of the attention scores, in training."""
    use_causal_mask: bool = False
    """Whether a position sees only itself and earlier ones."""

    def _query_value_key(self, shapes: tuple[Shape, ...]) -> tuple[Shape, Shape, Shape]:
        for shape in shapes:
            require_rank(shape, AXES)
        query, value, key = (*shapes, *shapes[-1:] * 2)[:3] if len(shapes) < 3 else shapes
        if value[0] != key[0]:
            raise ShapeError(
                "inputs",
                expected="as many steps in the value as in the key",
                received=f"{value[0]} and {key[0]}",
            )
        return query, value, key


class MultiHeadAttention(KernelLayer, _Attention):
    """Attention in several heads. Source: Vaswani et al. 2017, arXiv:1706.03762."""

    num_heads: Count
    key_dim: Count
    """The size of a head for query and key."""
    value_dim: Count | None = None
    """The size of a head for the value; by default `key_dim`."""
    output_shape: Count | None = None
    """The features of the output; by default the features of the query."""

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, features] to [steps, features]."""
        query, value, key = self._query_value_key(shapes)
        heads, size = self.num_heads, self.key_dim
        value_size = self.value_dim or size
        steps, features = query[0], self.output_shape or query[-1]
        kernels = (
            (query[-1], heads, size),
            (key[-1], heads, size),
            (value[-1], heads, value_size),
            (heads, value_size, features),
        )
        biases = ((heads, size), (heads, size), (heads, value_size), (features,))
        positions = (steps, key[0], key[0], steps)
        projections = sum(
            rows * math.prod(kernel) for rows, kernel in zip(positions, kernels, strict=True)
        )
        return Inference(
            (steps, features),
            weights=_interleave(kernels, biases) if self.use_bias else kernels,
            multiply_adds=projections + steps * key[0] * heads * (size + value_size),
            saved_activations=count_attention_activations(steps, query[-1], heads, heads * size),
            dimensions={"size of a head": size, "sequence": steps},
            parts=ATTENTION_PARTS,
        )


class GroupQueryAttention(KernelLayer, _Attention):
    """Attention whose query heads share keys and values. Source: Ainslie et al. 2023."""

    head_dim: Count
    num_query_heads: Count
    num_key_value_heads: Count

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, features] to [steps, features]."""
        query, value, key = self._query_value_key(shapes)
        heads, groups, size = self.num_query_heads, self.num_key_value_heads, self.head_dim
        if heads % groups:
            raise ShapeError(
                "num_key_value_heads",
                expected=f"a divisor of the {heads} query heads",
                received=str(groups),
            )
        if query[-1] != value[-1]:
            raise ShapeError(
                "inputs",
                expected="as many features in the query as in the value",
                received=f"{query[-1]} and {value[-1]}",
            )
        steps, features = query
        kernels = (
            (features, heads, size),
            (key[-1], groups, size),
            (value[-1], groups, size),
            (heads, size, features),
        )
        biases = ((heads, size), (groups, size), (groups, size), (features,))
        positions = (steps, key[0], key[0], steps)
        projections = sum(
            rows * math.prod(kernel) for rows, kernel in zip(positions, kernels, strict=True)
        )
        return Inference(
            query,
            weights=_interleave(kernels, biases) if self.use_bias else kernels,
            multiply_adds=projections + 2 * steps * key[0] * heads * size,
            saved_activations=count_attention_activations(steps, features, heads, heads * size),
            dimensions={"size of a head": size, "sequence": steps},
            parts=ATTENTION_PARTS,
        )


class _SingleHead(_Attention):
    """Attention without projections."""

    input_list: ClassVar[bool] = True

    def _scored(self, shapes: tuple[Shape, ...]) -> tuple[Shape, Shape]:
        query, value, key = self._query_value_key(shapes)
        if query[-1] != key[-1]:
            raise ShapeError(
                "inputs",
                expected="as many features in the query as in the key",
                received=f"{query[-1]} and {key[-1]}",
            )
        return query, value


class Attention(_SingleHead):
    """Dot-product attention. Source: Luong et al. 2015, arXiv:1508.04025."""

    use_scale: bool = False
    """Whether a factor of the scores is learned."""
    score_mode: Literal["dot", "concat"] = "dot"

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, features] to [steps, features of the value]."""
        query, value = self._scored(shapes)
        factors = self.use_scale + (self.score_mode == "concat")
        return Inference(
            (query[0], value[1]),
            weights=((),) * factors,
            multiply_adds=query[0] * value[0] * (query[1] + value[1]),
        )


class AdditiveAttention(_SingleHead):
    """Attention whose scores are sums. Source: Bahdanau et al. 2014, arXiv:1409.0473."""

    use_scale: bool = True
    """Whether a factor for each feature is learned."""

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, features] to [steps, features of the value]."""
        query, value = self._scored(shapes)
        return Inference(
            (query[0], value[1]),
            weights=((query[1],),) if self.use_scale else (),
            multiply_adds=query[0] * value[0] * value[1],
        )


def _interleave(kernels: tuple[Shape, ...], biases: tuple[Shape, ...]) -> tuple[Shape, ...]:
    return tuple(shape for pair in zip(kernels, biases, strict=True) for shape in pair)
