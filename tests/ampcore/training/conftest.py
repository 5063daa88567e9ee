"""Fixtures of the training tests: small tasks, their steps and loops, sessions, whole runs."""

from contextlib import contextmanager
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import data, models, optimizers
from ampcore.data import Batch, Signature
from ampcore.data.example_order import ExampleOrder
from ampcore.data.feed import ResidentFeed
from ampcore.diagnostics.hardware import device_info
from ampcore.models.classification import Classification
from ampcore.models.seeds import step_seed
from ampcore.models.task import Network
from ampcore.precision import NoLossScale, layer_policies
from ampcore.training import Trainer
from ampcore.training.context import RunContext
from ampcore.training.jobs.job import SpecJob
from ampcore.training.step import step_runner
from ampcore.training.step.clip import Clip
from ampcore.training.step.loop import Loop
from ampcore.training.step.plan import Plan
from ampcore.training.step.train_step import TrainStep
from ampspec.data.data import Digits
from ampspec.models.model import EmbeddingModel, Gan, Mlp
from ampspec.objectives.optimizer import Sgd
from ampspec.precision.precision import Precision
from ampspec.telemetry import StepBlock

BATCH = 64
MLP = Mlp(hidden=(16,), dropout=0.2)
GAN = Gan(latent=4, generator=(4, 4), discriminator=(4,))


@pytest.fixture(scope="session")
def digits():
    return data.load(Digits(validation_split=0.0))


@pytest.fixture(scope="session")
def batch(digits):
    return Batch(
        tf.constant(digits.train.arrays.x[:BATCH]), tf.constant(digits.train.arrays.y[:BATCH])
    )


@pytest.fixture(scope="session")
def make_task(digits):
    """Makes tasks whose networks always start with the same weights."""

    def make(spec=MLP, signature=None, policy="float32"):
        keras.utils.set_random_seed(0)
        policies = layer_policies(Precision(policy=policy))
        return models.build(spec, signature or digits.signature, policies)

    return make


@pytest.fixture(scope="session")
def task_of():
    """Makes the classification task of a Keras model."""
    return lambda model: Classification([Network("model", model)])


@pytest.fixture(scope="session")
def gan(make_task):
    """Makes a tiny generator with its discriminator."""
    return lambda policy="float32": make_task(GAN, policy=policy)


@pytest.fixture(scope="session")
def clicks(make_task):
    """Makes a tiny embedding model: 2 × 2 keys out of 9, rows of 3, a dense layer."""
    spec = EmbeddingModel(slots=2, nnz=2, vocabulary=9, dim=3, hidden=(4,))
    signature = Signature((2, 2), "int32", classes=2, vocabulary=9)
    return lambda policy="float32": make_task(spec, signature, policy)


@pytest.fixture(scope="session")
def make_step(make_task):
    """Makes a step of a task; a single scale or clip is for every network of the task."""

    def make(
        *scales, task=None, policy="float32", optimizer=None, clips=(), accumulate=1, **options
    ):
        task = task or make_task(policy=policy)
        count = len(task.networks)
        spec = optimizer or Sgd(learning_rate=0.1)
        made = [optimizers.build(spec, total_steps=100) for _ in range(count)]
        for one, network in zip(made, task.networks, strict=True):
            one.build(network.model.trainable_variables)
        return TrainStep(
            task,
            made,
            _for_each(count, scales or (NoLossScale(),)),
            _for_each(count, clips or (Clip(),)),
            accumulate,
            **options,
        )

    return make


def _for_each(count, given):
    return list(given) * count if len(given) == 1 else list(given)


@pytest.fixture(scope="session")
def train_on():
    """Trains a step on each of some batches; returns its states and its rows by column.

    A step is traced once, and compiled by XLA if it is in the form for that.
    """
    traced = {}

    def run(step, batches):
        if id(step) not in traced:
            xla = step == step.for_xla()
            function = tf.function(step.__call__, autograph=False, jit_compile=xla)
            traced[id(step)] = step, function
        _, function = traced[id(step)]
        states, rows = tuple(scale.init() for scale in step.loss_scales), []
        for number, batch in enumerate(batches):
            seed = step_seed(0, tf.constant(number, tf.int64))
            states, row = function(states, batch, seed)
            names = (*step.columns, "communication_s")[: step.row_width]
            rows.append(dict(zip(names, row.numpy(), strict=True)))
        return SimpleNamespace(states=states, rows=rows, row=rows[-1])

    return run


@pytest.fixture(scope="session")
def train(train_on):
    """Trains a step on one batch several times, as `train_on`."""
    return lambda step, batch, times=1: train_on(step, [batch] * times)


def variables(step):
    """Everything that a step may change, but for the loss scales."""
    own = [variable for network in step.task.networks for variable in network.model.variables]
    own += [one.history for network in step.task.networks for one in network.float8_scalings]
    return own + [variable for optimizer in step.optimizers for variable in optimizer.variables]


@pytest.fixture(scope="session")
def values():
    """A copy of everything that a step may change, but for the loss scales."""
    return lambda step: [np.array(variable.numpy()) for variable in variables(step)]


@pytest.fixture(scope="session")
def unchanged(values):
    """Asserts that nothing changes of what a step may change, bit for bit."""

    @contextmanager
    def check(step):
        before = values(step)
        yield
        np.testing.assert_equal(values(step), before)

    return check


@pytest.fixture(scope="session")
def reset():
    """Puts everything that a step may change back to a copy of `values`."""

    def assign(step, copies):
        for variable, copy in zip(variables(step), copies, strict=True):
            variable.assign(copy)

    return assign


@pytest.fixture(scope="session")
def make_loop(digits, values, reset):
    """Makes a loop of a step over 28 batches of digits; those that are `bad` hold an infinity."""

    def make(step, engine="graph", bad=()):
        x, y = digits.train.arrays.x[: 28 * BATCH].copy(), digits.train.arrays.y[: 28 * BATCH]
        x[[number * BATCH for number in bad]] = np.inf
        return LoopRunner(step, Batch(tf.constant(x), tf.constant(y)), engine, values, reset)

    return make


@pytest.fixture(scope="session")
def make_clicks_loop(values, reset):
    """Makes a loop of a step over 8 batches of keys for the model of `clicks`."""

    def make(step, engine="graph"):
        random = np.random.default_rng(0)
        keys = random.integers(9, size=(8 * BATCH, 2, 2), dtype=np.int32)
        labels = random.integers(2, size=8 * BATCH, dtype=np.int32)
        window = Batch(tf.constant(keys), tf.constant(labels))
        return LoopRunner(step, window, engine, values, reset)

    return make


class LoopRunner:
    """A loop that tests share; each one resets it with `begin`. Step n trains on batch n."""

    def __init__(self, step, window, engine, values, reset):
        self.step, self.window = step, window
        self.states = self._states = tuple(scale.init() for scale in step.loss_scales)
        size = BATCH // step.accumulate
        self.loop = Loop(step, self._states, window, batch_size=size, engine=engine)
        self._before, self._reset = values(step), reset

    def run(self, first, count, **how):
        self.states, rows = self.loop.run(self.states, self.window, first, first, count, **how)
        return rows

    def begin(self):
        self._reset(self.step, self._before)
        self.states = self._states
        return self


@pytest.fixture(scope="session")
def make_runner(job):
    """Makes the runner of a job with these parts; its data is resident without a `feed`."""

    def make(feed=None, float32=False, **parts):
        spec = job(**parts)
        keras.utils.set_random_seed(spec.train.seed)
        dataset = data.load(spec.data)
        size = spec.data.batch_size * spec.train.accumulate
        order = ExampleOrder(
            len(dataset.train.arrays.y), size, shuffle=spec.data.shuffle, seed=spec.train.seed
        )
        plan = Plan.from_spec(spec.train, dataset.steps_per_epoch(size))
        feed = (feed or ResidentFeed)(dataset.train, order)
        return RunContext(SpecJob(spec), dataset, plan, feed, device_info("cpu")).build_runner(
            float32=float32
        )

    return make


class OneStep:
    """Makes every block one step long, whatever its duration."""

    def next_size(self, remaining):
        return 1

    def observe(self, steps, seconds):
        pass


@pytest.fixture
def one_step_blocks(monkeypatch):
    """Makes every block one step long."""
    monkeypatch.setattr(step_runner, "AdaptiveBlockSize", OneStep)


class RecordedRun:
    """A run with its blocks, its events, and its result or its error."""

    def __init__(self, spec, should_stop=None, fails=(), **trainer):
        self.blocks, self.events, self.result, self.error = [], [], None, None
        self.activities = []
        try:
            self.result = Trainer(spec, **trainer).run(
                self.blocks.append, self.events.append, should_stop, self.activities.append
            )
        except fails as error:
            self.error = error
        assert not fails or self.error, "the run did not fail"
        self.steps = StepBlock.concat(self.blocks) if self.blocks else None

    def of(self, kind):
        return [event for event in self.events if event.type is kind]

    @property
    def without_times(self):
        """The steps without their durations, which differ in every run."""
        return self.steps.select([name for name in self.steps.names if name != "step_time_s"])


@pytest.fixture(scope="session")
def run_job(job):
    """Runs the job with these parts, on the graph engine unless they set another one.

    `fails` is the class of the error that must end the run.
    """

    def run(should_stop=None, *, output_dir=None, resume=False, fails=(), **parts):
        where = {"output_dir": output_dir, "resume": resume}
        where |= {"data_root": parts.pop("data_root", None), "init": parts.pop("init_file", None)}
        spec = job(**({"runtime": {"engine": "graph"}} | parts))
        return RecordedRun(spec, should_stop, fails, **where)

    return run
