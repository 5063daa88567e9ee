"""Jobs whose model is built by the code of a bundle: what it returns, and its errors."""

import itertools
import sys
import textwrap

import keras
import numpy as np
import pytest

from ampcore.data.feed import feed_for
from ampcore.diagnostics.preflight.model_preflight import preflight_on_device
from ampcore.training import Trainer
from ampspec.errors import (
    CodeFailed,
    IncompatibleCheckpoint,
    InvalidData,
    InvalidModel,
    TrainingError,
)
from ampspec.jobs import JobSpec, Reason
from ampspec.telemetry import EventType

BUNDLE = "sha256:" + "0" * 64
HEAD = "import keras\nfrom keras import ops\n"
DENSE = """
def build(options, signature):
    inputs = keras.Input(signature.input.shape)
    hidden = keras.layers.Flatten()(inputs)
    hidden = keras.layers.Dense(options.get("units", 8), activation="relu")(hidden)
    hidden = keras.layers.BatchNormalization()(hidden)
    hidden = keras.layers.Dropout(0.2)(hidden)
    return keras.Model(inputs, keras.layers.Dense(signature.target.size)(hidden))
"""
OWN = """
@keras.saving.register_keras_serializable(package="net")
class Scale(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, inputs, training=False):
        if training:
            self.calls.assign_add(1.0)
        return inputs * self.scale

def sharp(y_true, y_pred):
    return 2.0 * keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)

def build(options, signature):
    inputs = keras.Input(signature.input.shape)
    scaled = Scale(name="own")(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(signature.target.size, name="logits")(scaled))
    return {"model": model, "loss": sharp, "metrics": ["accuracy"]}
"""
SUBCLASSED = """
@keras.saving.register_keras_serializable(package="net")
class Net(keras.Model):
    def __init__(self, size, **model):
        super().__init__(**model)
        self.size = size
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(size, name="logits")

    def call(self, inputs):
        return self.dense(self.flatten(inputs))

    def get_config(self):
        return {**super().get_config(), "size": self.size}

def build(options, signature):
    return Net(signature.target.size)
"""
COUNTING = """
def note(text):
    with open("COUNT", "a") as file:
        file.write(text)

note("import ")
"""
numbers = itertools.count()


@pytest.fixture
def trainer(tmp_path):
    """Makes a trainer of a bundle with this code."""

    def make(
        code,
        *,
        output=None,
        resume=False,
        init_file=None,
        folder=None,
        name="net.py",
        head=HEAD,
        **parts,
    ):
        folder = folder or tmp_path / f"code-{next(numbers)}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(head + textwrap.dedent(code))
        model = {"kind": "bundle", "bundle": BUNDLE, **parts.pop("model", {})}
        document = {
            "model": model,
            "data": {"kind": "digits", "batch_size": 64},
            "train": {"steps": 12},
            "runtime": {"device": "cpu", "engine": "graph"},
            "telemetry": {"ranges": {"enabled": False}},
            **parts,
        }
        spec = JobSpec.parse(document)
        return Trainer(spec, output_dir=output, resume=resume, bundle=folder, init=init_file)

    yield make
    sys.path[:] = [path for path in sys.path if not path.startswith(str(tmp_path))]


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_an_own_layer_and_loss_are_trained(trainer, policy):
    result = trainer(OWN, precision={"policy": policy}).run()
    assert (result.steps, result.policy) == (12, policy)
    assert set(result.metrics) == {"val_loss", "val_accuracy"}
    assert result.parameters == 64 + 1 + 64 * 10 + 10


def test_without_a_loss_the_task_of_the_spec_decides(trainer):
    plain = trainer(DENSE).run()
    assert set(plain.metrics) == {"val_loss", "val_accuracy"}
    focal = trainer(
        DENSE, task={"kind": "classification", "loss": "focal", "metrics": ["f1"]}
    ).run()
    assert set(focal.metrics) == {"val_loss", "val_f1"}


def test_the_function_gets_the_options_and_the_signature(trainer):
    code = """
    def build(options, signature):
        assert options == {"units": 3, "names": ["a"]}, options
        assert list(signature.inputs) == ["input"] and list(signature.targets) == ["output"]
        assert (signature.input.shape, signature.input.dtype) == ((8, 8, 1), "float32")
        assert (signature.target.kind, signature.target.size) == ("class", 10)
        assert signature.target.output_shape == (10,) and signature.vocabulary is None
        options["units"] = 4
        return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(),
                                 keras.layers.Dense(10)])
    """
    made = trainer(code, model={"options": {"units": 3, "names": ["a"]}})
    assert made.run().steps == 12
    assert made.spec.model.options["units"] == 3


def test_a_subclassed_model_is_trained(trainer, tmp_path):
    result = trainer(
        SUBCLASSED, precision={"policy": "mixed_bfloat16"}, output=tmp_path / "o"
    ).run()
    assert result.steps == 12
    assert (tmp_path / "o" / "model.keras").is_file()


def test_modules_of_the_bundle_import_each_other(trainer, tmp_path):
    folder = tmp_path / "parts"
    (folder / "models").mkdir(parents=True)
    (folder / "sizes.py").write_text("UNITS = 5\n")
    code = "from sizes import UNITS\n" + textwrap.dedent(DENSE).replace(
        'options.get("units", 8)', "UNITS"
    )
    made = trainer(code, folder=folder, name="models/net.py", model={"build": "models.net:build"})
    assert made.run().parameters == 64 * 5 + 5 + 4 * 5 + 5 * 10 + 10


def test_a_run_resumes_exactly_with_the_state_of_own_layers(trainer, tmp_path):
    parts = {"precision": {"policy": "mixed_float16"}, "train": {"steps": 20}}
    code = OWN.replace(
        "    model = keras.Model",
        """\
    scaled = keras.layers.BatchNormalization()(keras.layers.Dense(8)(scaled))
    scaled = keras.layers.Dropout(0.2)(scaled)
    model = keras.Model""",
    )
    whole = trainer(code, **parts).run()
    output, blocks, events = tmp_path / "out", [], []
    first = trainer(code, output=output, **parts).run(
        on_block=blocks.append, should_stop=lambda: bool(blocks)
    )
    assert first.stopped
    keras.layers.Dense(3)  # the names of layers without one do not depend on the process
    rest = trainer(code, output=output, resume=True, **parts).run(on_event=events.append)
    assert EventType.RESUMED in [event.type for event in events]
    assert rest.weights_digest == whole.weights_digest


def test_the_code_runs_once_and_layers_without_names_are_numbered_from_the_start(trainer, tmp_path):
    keras.layers.Dense(3)
    count = tmp_path / "count"
    code = COUNTING.replace("COUNT", str(count)) + textwrap.dedent(DENSE).replace(
        "    inputs =", "    note('build ')\n    inputs =", 1
    )
    overrides = [{"layers": "^dense$", "dtype": "float32"}]
    precision = {"policy": "mixed_float16", "overrides": overrides}
    events = []
    made = trainer(
        code,
        precision=precision,
        loss_scale={"mode": "dynamic", "initial": 2.0**24},
    )
    made.run(on_event=events.append)
    assert EventType.OVERFLOW in [event.type for event in events]  # replayed in float32
    assert count.read_text() == "import build "


def error_of(trainer, kind=CodeFailed):
    with pytest.raises(kind) as raised:
        trainer.run()
    return raised.value


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def build(options, signature)\n    return 1\n", "net.py:3: SyntaxError: expected ':'"),
        ("import nothing_of_this_name\n", "net.py:3 in <module>: ModuleNotFoundError"),
        ("x = 1\n", "expected a function 'build' in 'net'; received nothing"),
        ("build = 1\n", "expected a function 'build' in 'net'; received int"),
        (
            "def build(options, signature):\n    return options['units']\n",
            "net.py:4 in build: KeyError: 'units'",
        ),
        (
            "def helper():\n    raise ValueError('too wide\\nmore')\n"
            "def build(options, signature):\n    return helper()\n",
            "net.py:4 in helper: ValueError: too wide",
        ),
        ("def build(options, signature):\n    exit(0)\n", "net.py:4 in build: SystemExit: 0"),
        ("def build(options):\n    return 1\n", "TypeError: build() takes 1 positional"),
        (
            "def build(options, signature):\n    inputs = keras.Input((8, 8, 1))\n"
            "    return keras.Model(inputs, keras.layers.Dense(3, activation='no')(inputs))\n",
            "net.py:5 in build: ValueError",
        ),
    ],
)
def test_an_error_of_the_code_names_its_file_line_and_message(trainer, code, message):
    error = error_of(trainer(code))
    assert message in str(error)
    assert error.reason is Reason.CODE_FAILED


@pytest.mark.parametrize("where", ["layer", "loss"])
def test_an_error_while_the_step_is_traced_names_its_line(trainer, where):
    code = OWN.replace("return 2.0 *", "raise ValueError('in the loss')\n    return 2.0 *")
    if where == "layer":
        code = OWN.replace(
            "        if training:",
            "        if training:\n            raise ValueError('in the layer')",
        )
    message = str(error_of(trainer(code)))
    assert message.startswith("net.py:")
    assert message.endswith(f"ValueError: in the {where}")


@pytest.mark.parametrize("name", ["types.py", "keras.py", "json/__init__.py"])
def test_a_module_must_not_hide_another_one(trainer, tmp_path, name):
    folder = tmp_path / "hiding"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("raise ValueError\n")
    assert "Rename it" in str(error_of(trainer(DENSE, folder=folder)))


def test_a_module_must_be_one_of_the_bundle(trainer):
    error = error_of(trainer(DENSE, model={"build": "json:loads"}))
    assert "'json', which is a module of another library" in str(error)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def build(options, signature):\n    return 1\n", "received int"),
        ("def build(options, signature):\n    return {'loss': 'mse'}\n", "received dict"),
        (DENSE.replace("return ", "return dict(optimizer=1, model=") + ")", "received optimizer"),
        (DENSE.replace("return ", "return dict(metrics=['mae'], model=") + ")", "metrics without"),
        (DENSE.replace("signature.target.size", "7"), "[10] for each example"),
        (
            OWN.replace('@keras.saving.register_keras_serializable(package="net")\n', ""),
            "net.Scale",
        ),
        (DENSE.replace("return ", "return dict(loss='no loss', model=") + ")", "keras.losses"),
    ],
)
def test_an_unsuitable_result_is_named(trainer, code, message):
    code = code.replace(")\n)", "))")
    error = error_of(trainer(code), InvalidModel)
    assert message in str(error)


def test_a_loss_of_the_bundle_and_one_of_the_task_are_refused(trainer):
    task = {"kind": "classification", "loss": "focal"}
    assert "the bundle returns a loss" in str(error_of(trainer(OWN, task=task), InvalidModel))


def test_without_its_folder_a_bundle_is_refused():
    model = {"kind": "bundle", "bundle": BUNDLE}
    spec = JobSpec.parse({"model": model, "data": {"kind": "digits"}})
    with pytest.raises(CodeFailed, match="--code FOLDER"):
        Trainer(spec)


def test_two_bundles_of_one_process_have_modules_of_their_own(trainer, tmp_path):
    units = {}
    for number in (4, 8):
        code = "from sizes import UNITS\n" + DENSE.replace('options.get("units", 8)', "UNITS")
        folder = tmp_path / f"units-{number}"
        folder.mkdir()
        (folder / "sizes.py").write_text(f"UNITS = {number}\n")
        units[number] = trainer(code, folder=folder).run().parameters
    assert units[8] > units[4]


def test_the_saved_model_gives_the_same_outputs(trainer, tmp_path):
    trainer(OWN, output=tmp_path / "out").run()
    model = keras.saving.load_model(tmp_path / "out" / "model.keras")
    assert model(np.zeros((2, 8, 8, 1), np.float32)).shape == (2, 10)
    assert float(model.get_layer("own").calls.value) == 12


def test_a_check_without_the_code_says_that_only_a_run_builds_the_model():
    document = {"model": {"kind": "bundle", "bundle": BUNDLE}, "data": {"kind": "digits"}}
    with pytest.raises(InvalidModel, match="which only a run builds"):
        preflight_on_device(JobSpec.parse(document))


def test_a_bundle_starts_from_the_weights_of_another_run(trainer, tmp_path):
    trainer(OWN, output=tmp_path / "out").run()
    events = []
    parts = {"init_file": tmp_path / "out" / "weights.safetensors", "init": {"job": "abc"}}
    frozen = {**parts, "init": {"job": "abc", "freeze": ["^own$"]}}
    trainer(OWN, **parts).run(on_event=events.append)
    [loaded] = [event for event in events if event.type is EventType.WEIGHTS_LOADED]
    assert (loaded.data["matched"], loaded.data["of"]) == (4, 4)
    assert trainer(OWN, **frozen).run().steps == 12


DATA_HEAD = HEAD + "import numpy as np\nimport tensorflow as tf\n"
WITH_DATA = """
def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="logits")])

def examples(path):
    with np.load(path) as file:
        rows = file["x"]
    x = np.stack([rows[:, 0], rows[:, 1], rows[:, 0] * rows[:, 1], rows[:, 0] ** 2], axis=1)
    return x, (x[:, 2] > 0).astype(int)

class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x) // 8

    def __getitem__(self, index):
        return self.x[8 * index : 8 * index + 8], self.y[8 * index : 8 * index + 8]

def endless(x, y):
    while True:
        yield x[:8], y[:8]

def broken(x, y):
    yield x[:8], y[:8]
    raise ValueError("no more")

def build(options, signature):
    x, y = examples(signature.path)
    made = {"model": model(), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    return made | RETURNED
"""


@pytest.fixture
def rows(tmp_path):
    """A file with 64 rows of two numbers, as the data of a spec."""
    x = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=x, y=np.arange(64) % 3)
    return {"kind": "npz", "path": str(tmp_path / "rows.npz"), "batch_size": 8}


@pytest.fixture
def with_data(trainer, rows):
    """A trainer of a bundle whose function returns this; `data` changes the spec's section."""

    def make(returned, *, data=None, code=WITH_DATA, **parts):
        return trainer(
            code.replace("RETURNED", returned), head=DATA_HEAD, data=rows | (data or {}), **parts
        )

    return make


def test_a_run_on_the_data_of_a_bundle_resumes_exactly(with_data, tmp_path):
    returned = (
        "{'data': Batches(x, y), 'validation_data': (x[:16], y[:16]), 'metrics': ['accuracy']}"
    )
    parts = {"train": {"steps": 20}, "precision": {"policy": "mixed_float16"}}
    whole = with_data(returned, **parts).run()
    assert set(whole.metrics) == {"val_loss", "val_accuracy"}
    output, blocks = tmp_path / "out", []
    first = with_data(returned, output=output, **parts).run(
        on_block=blocks.append, should_stop=lambda: bool(blocks)
    )
    assert first.stopped
    assert first.steps < 20
    rest = with_data(returned, output=output, resume=True, **parts).run()
    assert rest.weights_digest == whole.weights_digest
    model = keras.saving.load_model(output / "model.keras")
    assert model.input_shape == (None, 4)  # of the bundle's data, not of the file


@pytest.mark.parametrize(
    ("returned", "data", "train", "validation"),
    [
        ("{'data': (x, y)}", {}, 64, 0),
        ("{'data': (x, y)}", {"validation_split": 0.25}, 48, 16),
        ("{'data': (x, y, y + 1.0), 'validation_data': (x[:5], y[:5])}", {}, 64, 5),
        ("{'data': tf.data.Dataset.from_tensor_slices((x, y)).batch(8)}", {}, 64, 0),
        (
            "{'data': Batches(x, y), 'validation_data': Batches(x[:16], y[:16])}",
            {"validation_split": 0.5},
            64,
            16,
        ),
        ("{'data': endless(x, y), 'steps_per_epoch': 3}", {}, 24, 0),
        ("{'data': lambda: endless(x, y), 'steps_per_epoch': 3}", {}, 24, 0),
    ],
)
def test_a_bundle_returns_data_in_every_form_of_from_keras(
    with_data, returned, data, train, validation
):
    dataset = with_data(returned, data=data)._job.load_data()
    assert len(dataset.train) == train
    assert (0 if dataset.validation is None else len(dataset.validation)) == validation


def test_without_a_loss_the_data_of_a_bundle_has_the_form_of_that_of_the_spec(with_data):
    code = WITH_DATA.replace("keras.Input((4,))", "keras.Input((2,))").replace("Dense(2", "Dense(3")
    returned = "{'loss': None, 'data': (x[:, :2], y)}"
    dataset = with_data(returned, code=code)._job.load_data()
    assert dataset.signature.classes == 3
    message = (
        "data of net:build: expected examples as those of the spec's data, x: float32 of shape "
        "[2], y: integers of shape [], since net:build returns no loss; received x: float32 of "
        "shape [4], y: integers of shape []."
    )
    with pytest.raises(InvalidData) as raised:
        with_data("{'loss': None, 'data': (x, y)}")._job.load_data()
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("{'data': 3}", "data of net:build, x: expected an array of examples; received one number"),
        ("{'data': (x, y[:5])}", "data of net:build, y: expected 64 rows"),
        (
            "{'data': (x, y), 'validation_data': (x[:, :1], y)}",
            "validation_data of net:build: expected examples as in data",
        ),
        (
            "{'data': Batches(x, y), 'validation_data': endless(x, y)}",
            "validation_data of net:build: expected arrays, or batches that can be read again",
        ),
        ("{'data': endless(x, y)}", "data of net:build, steps_per_epoch: expected a number"),
        ("{'data': (x[:4], y[:4])}", "data of net:build, batch_size: expected at most 4"),
        (
            "{'data': tf.data.Dataset.from_tensor_slices((x, y)).batch(4)}",
            "data.batch_size: expected 4, the size of the batches that net:build returns",
        ),
        (
            "{'validation_data': (x, y)}",
            "that net:build returns data with its validation_data, or neither",
        ),
        ("{'data': (x[:, :3], y)}", "data of net:build, x: expected inputs that the model"),
    ],
)
def test_unsuitable_data_of_a_bundle_names_the_function(with_data, returned, message):
    with pytest.raises(TrainingError) as raised:
        with_data(returned)._job.load_data()
    assert message in str(raised.value)
    assert raised.value.reason in {Reason.INVALID_DATA, Reason.INVALID_SPEC}


def test_the_file_of_a_bundle_needs_no_column_to_predict(with_data, rows):
    np.savez(rows["path"], x=np.ones((64, 2), np.float32))
    dataset = with_data("{'data': (x, y)}", task={"kind": "autoencoding"})._job.load_data()
    assert dataset.train.spec.y.dtype.name == "int64"


def test_a_bundle_may_make_more_examples_of_the_file_than_it_has_rows(with_data, rows):
    np.savez(rows["path"], x=np.ones((3, 2), np.float32), y=np.arange(3) % 2)
    returned = "{'data': (np.tile(x, (9, 1)), np.tile(y, 9))}"
    assert len(with_data(returned)._job.load_data().train) == 27
    code = WITH_DATA.replace("keras.Input((4,))", "keras.Input((2,))")
    with pytest.raises(InvalidData, match=r"batch_size: expected at most 3, .* received 8"):
        with_data("{'loss': None}", code=code)._job.load_data()


def test_preprocessing_of_the_spec_and_data_of_a_bundle_are_refused(with_data):
    made = with_data("{'data': (x, y)}", data={"preprocessing": {"x": {"normalize": True}}})
    with pytest.raises(InvalidModel, match=r"data\.preprocessing: expected none, since net:build"):
        made._job.load_data()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "{'data': broken(x, y), 'steps_per_epoch': 4}",
            "net.py:32 in broken: ValueError: no more",
        ),
        (
            "{'data': tf.data.Dataset.from_generator(lambda: broken(x, y), output_signature=("
            "tf.TensorSpec((None, 4)), tf.TensorSpec((None,), tf.int64))), 'steps_per_epoch': 4}",
            "data of net:build: ",
        ),
    ],
)
def test_an_error_while_batches_are_read_names_the_function(with_data, returned, message):
    source = with_data(returned)._job.load_data().train
    with pytest.raises(CodeFailed) as raised:
        list(source.epoch(0, 0))
    assert str(raised.value).startswith("data of net:build: ")
    assert message in str(raised.value)


def test_a_generator_of_a_bundle_cannot_resume(with_data):
    source = with_data("{'data': endless(x, y), 'steps_per_epoch': 8}")._job.load_data().train
    feed = feed_for(source, 8, shuffle=True, seed=0, budget_bytes=0)
    with pytest.raises(IncompatibleCheckpoint, match="this run cannot resume"):
        feed.window(3, 0)


def test_a_bundle_reads_only_what_the_spec_names(trainer):
    code = DENSE.replace("    inputs", "    assert signature.path is None\n    inputs", 1)
    assert trainer(code)._job.load_data().train is not None
