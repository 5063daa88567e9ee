"""Documents of every kind of layer with inputs that it may take, drawn by hypothesis."""

from hypothesis import strategies as st

from ampspec.models.model import Layers

SIZE = st.integers(1, 7)
LARGER = st.integers(4, 9)
CHANNELS = st.sampled_from([1, 2, 3, 4, 6])
BOOLEANS = st.booleans()
INITIALIZERS = st.sampled_from(
    ["he_normal", "zeros", {"name": "random_normal", "stddev": 0.1}, {"name": "constant"}]
)
REGULARIZERS = st.sampled_from(["l2", {"name": "l1_l2", "l1": 0.1, "l2": 0.2}])
CONSTRAINTS = st.sampled_from(["non_neg", {"name": "max_norm", "max_value": 3, "axis": 0}])
ACTIVATIONS = st.sampled_from(["relu", "gelu", "softmax", "tanh_shrink", "swish"])
TIME_DISTRIBUTED = [
    ({"of": {"layer": "Dense", "units": 3, "kernel_regularizer": "l2"}}, ((4, 2),)),
    ({"of": {"layer": "Conv2D", "filters": 3, "kernel_size": [2, 1]}}, ((4, 6, 5, 2),)),
    ({"of": {"layer": "BatchNormalization"}}, ((3, 5, 2),)),
    ({"of": {"layer": "MaxPooling2D"}}, ((3, 4, 5, 2),)),
    ({"of": {"layer": "Flatten"}}, ((2, 4, 5, 2),)),
    ({"of": {"layer": "Dropout", "rate": 0.5}, "trainable": False}, ((2, 4),)),
]


def shape(*sizes):
    return st.tuples(*sizes)


def vector(low=0, high=3):
    """[…, features]: a shape of any rank."""
    return st.lists(SIZE, min_size=low, max_size=high).flatmap(
        lambda before: st.builds(lambda last: (*before, last), SIZE)
    )


def image(axes, size=LARGER):
    return shape(*[size] * axes, CHANNELS)


def per_axis(axes, values):
    return st.one_of(values, st.lists(values, min_size=axes, max_size=axes))


def one_input(fields, inputs):
    return st.tuples(fields, inputs.map(lambda one: (one,)))


def optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def required(optional=None, **fields):
    return st.fixed_dictionaries(fields, optional=optional or {})


KERNEL_OPTIONS = {
    "use_bias": BOOLEANS,
    "kernel_initializer": INITIALIZERS,
    "bias_regularizer": REGULARIZERS,
    "kernel_constraint": CONSTRAINTS,
}


def strided(axes, **fields):
    """Strides or a dilation, never both."""
    ones = required(
        {
            "padding": st.sampled_from(["valid", "same"]),
            "activation": ACTIVATIONS,
            "use_bias": BOOLEANS,
        },
        kernel_size=per_axis(axes, st.integers(1, 3)),
        **fields,
    )
    strides = optional(strides=per_axis(axes, st.integers(1, 3)))
    dilation = optional(dilation_rate=per_axis(axes, st.integers(1, 2)))
    return st.builds(lambda one, other: one | other, ones, st.one_of(strides, dilation))


def same_strides(axes, **fields):
    return strided(axes, **fields).map(
        lambda parts: (
            parts
            | ({"strides": parts["strides"][0]} if isinstance(parts.get("strides"), list) else {})
        )
    )


def grouped(parts):
    """A convolution whose groups divide its filters and the channels of its input."""
    fields, size, channels, groups, multiple = parts
    return fields | {"filters": groups * multiple, "groups": groups}, ((*size, groups * channels),)


def convolution(axes):
    return st.tuples(
        strided(axes), shape(*[LARGER] * axes), SIZE, st.integers(1, 3), st.integers(1, 3)
    ).map(grouped)


def transposed(axes):
    fields = strided(axes, filters=SIZE)
    return one_input(fields, image(axes))


def with_output_padding(parts):
    fields, inputs = parts
    return fields | {"strides": 2, "output_padding": 1, "dilation_rate": 1}, inputs


def pooling(axes, *, has_default):
    size = per_axis(axes, st.integers(1, 3))
    options = {"strides": size, "padding": st.sampled_from(["valid", "same"])}
    fields = (
        optional(pool_size=size, **options) if has_default else required(options, pool_size=size)
    )
    return one_input(fields, image(axes))


def normalized(**fields):
    options = {"epsilon": st.just(0.01), "center": BOOLEANS, "scale": BOOLEANS}
    return one_input(optional(**options, **fields), vector(1))


def recurrent(**fields):
    options = {
        "activation": st.just("relu"),
        "use_bias": BOOLEANS,
        "dropout": st.just(0.25),
        "return_sequences": BOOLEANS,
        "go_backwards": BOOLEANS,
        "recurrent_initializer": INITIALIZERS,
        "kernel_regularizer": REGULARIZERS,
    }
    return one_input(required(options | fields, units=SIZE), shape(SIZE, SIZE))


def conv_lstm(axes):
    fields = st.builds(
        lambda one, other: one | other,
        strided(axes, filters=st.integers(1, 3)).map(
            lambda parts: {key: value for key, value in parts.items() if key != "activation"}
        ),
        optional(return_sequences=BOOLEANS, unit_forget_bias=BOOLEANS),
    )
    size = st.integers(5, 6)
    return one_input(fields, shape(st.integers(1, 3), *[size] * axes, st.integers(1, 3)))


def attention(fields, *, same_features, same_values=False):
    """Query, value and key: two or three inputs."""

    def inputs(sizes, count):
        queries, steps, width, other = sizes
        features = width if same_features else other
        value = width if same_values else other if count == 3 else features
        return ((queries, width), (steps, value), (steps, features))[:count]

    shapes = st.builds(inputs, st.tuples(SIZE, SIZE, SIZE, SIZE), st.sampled_from([2, 3]))
    return st.tuples(fields, shapes)


def same_shapes(low=2, high=4):
    return st.tuples(vector(1), st.integers(low, high)).map(lambda parts: (parts[0],) * parts[1])


def broadcast_shapes(parts):
    shapes, axis = parts
    first, *rest = shapes
    axis %= len(first)
    return ((*first[:axis], 1, *first[axis + 1 :]), *rest)


def merge(low=2, high=4):
    same = same_shapes(low, high)
    broadcast = st.tuples(same, st.integers(0, 5)).map(broadcast_shapes)
    return st.tuples(st.just({}), st.one_of(same, broadcast))


def concatenated(parts):
    first, axis, sizes = parts
    axis %= len(first)
    shapes = tuple((*first[:axis], size, *first[axis + 1 :]) for size in sizes)
    return {"axis": axis + 1 if sizes[0] % 2 else axis - len(first)}, shapes


def dotted(parts):
    size, first, second, normalize = parts
    return {"axes": [2, 1], "normalize": normalize}, ((first, size), (size, second))


def reshaped(parts):
    size, first, second = parts
    target = [first, second, -1] if size % 2 else [first * size, second]
    return {"target_shape": target}, ((size, first * second),)


def permuted(parts):
    return parts.flatmap(
        lambda one: st.permutations(range(1, len(one) + 1)).map(
            lambda dims: ({"dims": dims}, (one,))
        )
    )


def edges(axes, field):
    number = st.integers(0, 2)
    pair = st.tuples(number, number).map(list)
    values = (
        [number, pair] if axes == 1 else [number, st.lists(number, min_size=axes, max_size=axes)]
    )
    if axes > 1:
        values.append(st.lists(pair, min_size=axes, max_size=axes))
    return one_input(optional(**{field: st.one_of(values)}), image(axes, st.integers(5, 8)))


def statistics(parts):
    shape_, axis, several = parts
    index = axis % len(shape_)
    mean = [0.5] * shape_[index] if several else 0.5
    return {"mean": mean, "variance": mean, "axis": index - len(shape_)}, (shape_,)


def with_noise_shape(parts):
    fields, size, together = parts
    noise = {"noise_shape": [None, *[1] * len(size)]} if together else {}
    return fields | noise, (size,)


RATE = required(rate=st.just(0.5))
ANY = st.just({})
HEADS = {"use_bias": BOOLEANS, "dropout": st.just(0.1), "use_causal_mask": BOOLEANS}

DOCUMENTS = {
    "Dense": one_input(
        required({"activation": ACTIVATIONS, **KERNEL_OPTIONS}, units=SIZE), vector()
    ),
    "EinsumDense": st.one_of(
        st.tuples(SIZE, SIZE, SIZE, SIZE).map(
            lambda n: (
                {
                    "equation": "abc,cde->abde",
                    "output_shape": [n[0], n[2], n[3]],
                    "bias_axes": "de",
                },
                ((n[0], n[1]),),
            )
        ),
        st.tuples(vector(1), SIZE).map(
            lambda n: (
                {"equation": "...x,xy->...y", "output_shape": n[1], "bias_axes": "y"},
                (n[0],),
            )
        ),
        st.tuples(SIZE, SIZE, SIZE).map(
            lambda n: (
                {"equation": "ab...,bc->ac...", "output_shape": [n[1]], "bias_axes": "c"},
                ((n[0], n[2], 2),),
            )
        ),
        st.tuples(SIZE, SIZE).map(
            lambda n: ({"equation": "abc,bc->ab", "output_shape": [n[0]]}, (n,))
        ),
    ),
    "Embedding": one_input(
        required(
            {"mask_zero": BOOLEANS, "embeddings_initializer": INITIALIZERS},
            input_dim=SIZE,
            output_dim=SIZE,
        ),
        vector(),
    ),
    "Identity": one_input(ANY, vector()),
    "Masking": one_input(optional(mask_value=st.just(-1.0)), vector(1)),
    "Activation": one_input(required(activation=ACTIVATIONS), vector()),
    "ELU": one_input(optional(alpha=st.just(0.5)), vector()),
    "LeakyReLU": one_input(optional(negative_slope=st.just(0.1)), vector()),
    "PReLU": st.tuples(vector(1), BOOLEANS).map(
        lambda n: ({"shared_axes": [1]} if n[1] else {}, (n[0],))
    ),
    "ReLU": one_input(optional(max_value=st.just(6.0), negative_slope=st.just(0.1)), vector()),
    "Softmax": one_input(optional(axis=st.sampled_from([-1, 1, [1, 2]])), vector(1)),
    "Conv1D": convolution(1),
    "Conv2D": convolution(2),
    "Conv3D": convolution(3),
    "Conv1DTranspose": st.one_of(transposed(1), transposed(1).map(with_output_padding)),
    "Conv2DTranspose": st.one_of(transposed(2), transposed(2).map(with_output_padding)),
    "Conv3DTranspose": st.one_of(transposed(3), transposed(3).map(with_output_padding)),
    "DepthwiseConv1D": one_input(same_strides(1, depth_multiplier=SIZE), image(1)),
    "DepthwiseConv2D": one_input(same_strides(2, depth_multiplier=SIZE), image(2)),
    "SeparableConv1D": one_input(same_strides(1, filters=SIZE), image(1)),
    "SeparableConv2D": one_input(
        same_strides(2, filters=SIZE, depth_multiplier=st.integers(1, 3)), image(2)
    ),
    **{f"MaxPooling{n}D": pooling(n, has_default=True) for n in (1, 2, 3)},
    **{f"AveragePooling{n}D": pooling(n, has_default=False) for n in (1, 2, 3)},
    **{
        f"Global{kind}Pooling{n}D": one_input(optional(keepdims=BOOLEANS), image(n))
        for kind in ("Max", "Average")
        for n in (1, 2, 3)
    },
    "BatchNormalization": normalized(axis=st.sampled_from([-1, 1]), momentum=st.just(0.9)),
    "LayerNormalization": normalized(axis=st.sampled_from([-1, 1, [1, 2]])),
    "GroupNormalization": st.tuples(vector(1), st.integers(1, 3), BOOLEANS).map(
        lambda n: ({"groups": n[1], "scale": n[2]}, ((*n[0], n[1] * 2),))
    ),
    "RMSNormalization": one_input(optional(axis=st.sampled_from([-1, 1])), vector(1)),
    "UnitNormalization": one_input(optional(axis=st.sampled_from([-1, 1, [1, 2]])), vector(1)),
    "Dropout": st.tuples(RATE, vector(), BOOLEANS).map(with_noise_shape),
    "AlphaDropout": st.tuples(RATE, vector(), BOOLEANS).map(with_noise_shape),
    "GaussianDropout": one_input(RATE, vector()),
    "GaussianNoise": one_input(required(stddev=st.just(0.5)), vector()),
    **{f"SpatialDropout{n}D": one_input(RATE, image(n)) for n in (1, 2, 3)},
    "LSTM": recurrent(unit_forget_bias=BOOLEANS, recurrent_activation=st.just("tanh")),
    "GRU": recurrent(reset_after=BOOLEANS),
    "SimpleRNN": recurrent(),
    "Bidirectional": st.tuples(
        recurrent(),
        st.sampled_from(["LSTM", "GRU", "SimpleRNN"]),
        st.sampled_from(["concat", "sum", "mul", "ave"]),
    ).map(lambda n: ({"of": {"layer": n[1], **n[0][0]}, "merge_mode": n[2]}, n[0][1])),
    "TimeDistributed": st.sampled_from(TIME_DISTRIBUTED),
    "ConvLSTM1D": conv_lstm(1),
    "ConvLSTM2D": conv_lstm(2),
    "ConvLSTM3D": conv_lstm(3),
    "MultiHeadAttention": attention(
        required({"value_dim": SIZE, "output_shape": SIZE, **HEADS}, num_heads=SIZE, key_dim=SIZE),
        same_features=False,
    ),
    "GroupQueryAttention": attention(
        st.tuples(optional(**HEADS), SIZE, st.integers(1, 3), st.integers(1, 3)).map(
            lambda n: (
                n[0]
                | {"head_dim": n[1], "num_query_heads": n[2] * n[3], "num_key_value_heads": n[2]}
            )
        ),
        same_features=False,
        same_values=True,
    ),
    "Attention": attention(
        optional(
            use_scale=BOOLEANS,
            score_mode=st.sampled_from(["dot", "concat"]),
            use_causal_mask=BOOLEANS,
        ),
        same_features=True,
    ),
    "AdditiveAttention": attention(optional(use_scale=BOOLEANS), same_features=True),
    **{
        kind: merge(*((2, 2) if kind == "Subtract" else (2, 4)))
        for kind in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")
    },
    "Concatenate": st.tuples(vector(1), SIZE, st.lists(SIZE, min_size=2, max_size=4)).map(
        concatenated
    ),
    "Dot": st.one_of(
        st.tuples(SIZE, SIZE, SIZE, BOOLEANS).map(dotted),
        SIZE.map(lambda n: ({"axes": 1}, ((n,), (n,)))),
        st.tuples(SIZE, SIZE, SIZE).map(lambda n: ({"axes": -1}, ((n[0], n[2]), (n[1], n[2])))),
    ),
    "Reshape": st.tuples(SIZE, SIZE, SIZE).map(reshaped),
    "Flatten": one_input(ANY, vector()),
    "Permute": permuted(vector()),
    "RepeatVector": one_input(required(n=SIZE), shape(SIZE)),
    **{f"Cropping{n}D": edges(n, "cropping") for n in (1, 2, 3)},
    **{f"ZeroPadding{n}D": edges(n, "padding") for n in (1, 2, 3)},
    "UpSampling1D": one_input(optional(size=SIZE), image(1)),
    "UpSampling2D": one_input(
        optional(size=per_axis(2, SIZE), interpolation=st.sampled_from(["nearest", "bilinear"])),
        image(2),
    ),
    "UpSampling3D": one_input(optional(size=per_axis(3, st.integers(1, 2))), image(3)),
    "Rescaling": one_input(required(scale=st.just(0.5)), vector()),
    "Normalization": st.tuples(vector(1), st.integers(0, 3), BOOLEANS).map(statistics),
    "CategoryEncoding": one_input(
        required(
            {"output_mode": st.sampled_from(["one_hot", "multi_hot", "count"])}, num_tokens=SIZE
        ),
        vector(0, 1),
    ),
    "Discretization": one_input(required(bin_boundaries=st.just([0.0, 1.5, 3.0])), vector()),
    "Resizing": one_input(
        required(
            {"interpolation": st.sampled_from(["nearest", "bicubic"])}, height=SIZE, width=SIZE
        ),
        image(2),
    ),
    "CenterCrop": one_input(required(height=st.integers(1, 4), width=st.integers(1, 4)), image(2)),
}
"""By kind, the fields of a document and the shapes of its inputs."""


def network_of(kind, fields, shapes):
    """A model of one layer with inputs of its own, x0, x1, …"""
    dtype = "int32" if kind in ("Embedding", "CategoryEncoding") else "float32"
    inputs = {f"x{index}": {"shape": list(one), "dtype": dtype} for index, one in enumerate(shapes)}
    layers = [{"layer": kind, **fields, "inputs": list(inputs)}]
    return Layers.model_validate({"kind": "layers", "inputs": inputs, "layers": layers})
