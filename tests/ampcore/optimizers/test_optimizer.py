"""The optimizers equal those of Keras in a graph, in a while loop and under XLA."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.optimizers.schedules import CosineDecay

from ampcore import optimizers
from ampcore.optimizers import schedule
from ampspec.objectives.optimizer import Adam, AdamW, Cosine, Momentum, RmsProp, Sgd

STEPS = 5
LARGE, SMALL = (512, 64), (8, 3)
"""Shapes with enough elements for every kernel, and with too few for that of Adam."""

RATE, COSINE = 0.05, CosineDecay(0.05, float(STEPS))
KINDS = {
    "sgd": (Sgd, {}, lambda: keras.optimizers.SGD(COSINE)),
    "momentum": (Momentum, {}, lambda: keras.optimizers.SGD(COSINE, 0.9)),
    "nesterov": (
        Momentum,
        {"nesterov": True},
        lambda: keras.optimizers.SGD(COSINE, 0.9, nesterov=True),
    ),
    "adam": (Adam, {}, lambda: keras.optimizers.Adam(COSINE)),
    "adamw": (
        AdamW,
        {"weight_decay": 0.1},
        lambda: keras.optimizers.AdamW(COSINE, weight_decay=0.1),
    ),
    "rmsprop": (RmsProp, {}, lambda: keras.optimizers.RMSprop(COSINE)),
    "rmsprop_momentum": (
        RmsProp,
        {"momentum": 0.5},
        lambda: keras.optimizers.RMSprop(COSINE, momentum=0.5),
    ),
}
SHAPES = {"large": LARGE, "small": SMALL, "rows": SMALL}


def made(kind, **options):
    spec, fields, _ = KINDS[kind]
    fields = {"learning_rate": RATE, "schedule": Cosine()} | fields | options
    return optimizers.build(spec(**fields), STEPS)


def normal(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


GRADS = {shape: normal(STEPS, *shape) for shape in (LARGE, SMALL)}


@pytest.fixture(scope="module")
def by_keras():
    """The weights after training with Keras, by kind and shape."""
    after = {}
    for kind, (_, _, make) in KINDS.items():
        for shape in (LARGE, SMALL):
            weight, optimizer = keras.Variable(normal(*shape)), make()
            for grad in GRADS[shape]:
                optimizer.apply([tf.constant(grad)], [weight])
            after[kind, shape] = weight.numpy()
    return after


@pytest.fixture(scope="module", params=["function", "while_loop", "xla"])
def by_us(request, as_rows):
    """The weights after training with our optimizers, by kind and form; one function for all."""
    runs = {}
    for kind in KINDS:
        for form, shape in SHAPES.items():
            # An average must work in every form without changing the weights.
            ema = 0.9 if kind == "adam" else None
            weight, optimizer = keras.Variable(normal(*shape)), made(kind, ema=ema)
            optimizer.build([weight])
            runs[kind, form] = (weight, optimizer, tf.constant(GRADS[shape]))

    def step(number):
        for (_, form), (weight, optimizer, grads) in runs.items():
            grad = grads[number]
            given = ([as_rows(grad) if form == "rows" else grad], [weight])
            if request.param == "xla":
                optimizer.apply_where(tf.constant(True), *given)
            else:
                optimizer.apply(*given)

    def loop(count):
        def body(number):
            step(number)
            return number + 1

        return tf.while_loop(lambda number: number < count, body, (tf.constant(0),))

    if request.param == "function":
        once = tf.function(step, autograph=False)
        for number in range(STEPS):
            once(tf.constant(number))
    else:
        compiled = tf.function(loop, jit_compile=request.param == "xla", autograph=False)
        compiled(tf.constant(STEPS))
    return {key: weight.numpy() for key, (weight, _, _) in runs.items()}


@pytest.mark.xdist_group("optimizers")
@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_change_as_with_keras(kind, form, by_us, by_keras):
    start = normal(*SHAPES[form])
    found, expected = by_us[kind, form] - start, by_keras[kind, SHAPES[form]] - start
    # TensorFlow's kernel has 1 - β₂ in float32, Keras in float64: 1.3e-5 apart, half in a root.
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_gradient_do_not_change(kind, as_rows):
    weight, optimizer = keras.Variable(normal(*SMALL)), made(kind, ema=0.9)
    optimizer.apply([as_rows(GRADS[SMALL][0])], [weight])

    def tables():
        own = [each for each in optimizer.variables if each.shape[:1] == weight.shape[:1]]
        return [each.numpy() for each in (weight, *own)]

    before = tables()
    grad = tf.IndexedSlices(tf.ones((2, 3)), tf.constant([5, 2]), tf.constant(SMALL))
    optimizer.apply([grad], [weight])
    for old, new in zip(before, tables(), strict=True):
        same = (old == new).reshape(len(old), -1)
        assert same[[0, 1, 3, 4, 6, 7]].all()
        assert not same[[2, 5]].all(axis=1).any()


@pytest.mark.parametrize("kind", KINDS)
def test_duplicate_rows_of_a_sparse_gradient_are_added_up(kind):
    rows = tf.constant(normal(3, 3))
    twice = tf.IndexedSlices(rows, tf.constant([4, 1, 4]), tf.constant(SMALL))
    once = tf.IndexedSlices(
        tf.stack([rows[0] + rows[2], rows[1]]), tf.constant([4, 1]), tf.constant(SMALL)
    )
    weights = []
    for grad in (twice, once):
        weight, optimizer = keras.Variable(normal(*SMALL)), made(kind)
        for _ in range(2):
            optimizer.apply([grad], [weight])
        weights.append(weight.numpy())
    np.testing.assert_array_equal(*weights)


def every_output(graph):
    """The outputs of all operations of a traced function and of the functions that it calls."""
    seen = set()

    def walk(graph):
        for operation in graph.get_operations():
            yield from operation.outputs
            for name in ("then_branch", "else_branch", "body", "cond", "f"):
                try:
                    called = operation.get_attr(name).name
                except (ValueError, AttributeError):
                    continue
                if called not in seen:
                    seen.add(called)
                    yield from walk(graph._get_function(called).graph)

    return list(walk(graph))


def operations_with_rows(rows, optimizer, weight):
    """The operations with an output of so many rows, in a whole training step."""

    @tf.function(autograph=False)
    def step(keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.gather(weight.value, keys)))
        grad = tape.gradient(loss, weight.value)
        tf.cond(loss > 0, lambda: optimizer.apply([grad], [weight]), lambda: None)

    graph = step.get_concrete_function(tf.TensorSpec([4], tf.int32)).graph
    return [
        output.op.type
        for output in every_output(graph)
        if output.shape.rank and output.shape[0] == rows
    ]


ROWS = 4099


@pytest.mark.parametrize("kind", KINDS)
def test_no_tensor_in_the_graph_of_a_sparse_step_is_as_large_as_the_table(kind):
    weight, optimizer = keras.Variable(tf.ones((ROWS, 3))), made(kind, ema=0.9)
    optimizer.build([weight])
    assert operations_with_rows(ROWS, optimizer, weight) == []


def test_the_search_for_large_tensors_finds_those_of_keras():
    weight, optimizer = keras.Variable(tf.ones((ROWS, 3))), keras.optimizers.Adam()
    optimizer.build([weight])
    assert operations_with_rows(ROWS, optimizer, weight)


@pytest.mark.parametrize("form", ["small", "rows"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_weights_are_updated_in_float32_and_rounded(dtype, form, as_rows):
    # The square underflows in float16, and so would the second moment.
    grad = tf.fill(SMALL, tf.constant(1e-4, dtype))
    weights = [keras.Variable(tf.ones(SMALL), dtype=each) for each in (dtype, "float32")]
    for weight in weights:
        optimizer = made("adam")
        optimizer.apply([as_rows(grad) if form == "rows" else grad], [weight])
        slots = [each for each in optimizer.variables if each.shape == weight.shape]
        assert {each.dtype for each in slots} == {"float32"}
    half, full = (weight.value for weight in weights)
    np.testing.assert_array_equal(half, tf.cast(full, dtype))


@pytest.mark.parametrize("form", ["small", "rows"])
@pytest.mark.parametrize("xla", [False, True])
def test_a_skipped_step_changes_neither_weights_nor_slots_nor_schedule(xla, form, as_rows):
    weight, optimizer = keras.Variable(normal(*SMALL)), made("adamw", ema=0.9)
    optimizer.build([weight])

    @tf.function(autograph=False, jit_compile=xla)
    def step(grad):
        finite = tf.reduce_all(tf.math.is_finite(grad))
        given = ([as_rows(grad) if form == "rows" else grad], [weight])
        if xla:
            optimizer.apply_where(finite, *given)
        else:
            tf.cond(finite, lambda: optimizer.apply(*given), lambda: None)
        return tf.convert_to_tensor(optimizer.learning_rate)

    step(tf.ones(SMALL))
    before = [each.numpy() for each in (weight, *optimizer.variables)]
    rates = [step(tf.fill(SMALL, np.nan)) for _ in range(2)]
    after = [each.numpy() for each in (weight, *optimizer.variables)]
    assert rates[0] == rates[1]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimizer_with_copied_variables_continues_identically(kind, as_rows):
    def run(optimizer, weight, grads):
        for grad in grads:
            optimizer.apply([as_rows(grad) if len(grads) > 2 else grad], [weight])

    weight, optimizer = keras.Variable(normal(*SMALL)), made(kind, ema=0.9)
    run(optimizer, weight, GRADS[SMALL][:2])
    other, resumed = keras.Variable(weight.numpy()), made(kind, ema=0.9)
    resumed.build([other])
    for target, source in zip(resumed.variables, optimizer.variables, strict=True):
        target.assign(source.numpy())
    run(optimizer, weight, GRADS[SMALL][2:])
    run(resumed, other, GRADS[SMALL][2:])
    for first, second in zip(
        [weight, *optimizer.variables], [other, *resumed.variables], strict=True
    ):
        np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_the_learning_rates_of_a_schedule_equal_those_of_keras():
    built = schedule.build(Cosine(), RATE, STEPS)
    assert [float(built(n)) for n in range(STEPS)] == [float(COSINE(n)) for n in range(STEPS)]


def test_a_variable_that_is_overwritten_has_neither_slots_nor_an_average():
    weight, history = keras.Variable(normal(*SMALL)), keras.Variable([1.0, 2.0])
    history.overwrite_with_gradient = True
    optimizer = made("adam", ema=0.9)
    optimizer.build([weight, history])
    assert {variable.shape for variable in optimizer.variables} == {(), SMALL, SMALL[:1]}
    optimizer.apply([tf.ones(SMALL), tf.constant([3.0, 4.0])], [weight, history])
    assert history.numpy().tolist() == [3.0, 4.0]
    assert optimizer.average_of(history) is None
