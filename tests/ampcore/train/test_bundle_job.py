"""Jobs whose model is built by the code of a bundle: what it returns, and its errors."""

import itertools
import sys
import textwrap

import keras
import numpy as np
import pytest

from ampcore.diagnostics.model_preflight import preflight_on_device
from ampcore.errors import CodeFailed, InvalidModel
from ampcore.spec import JobSpec, Reason
from ampcore.telemetry import EventType
from ampcore.train import Trainer

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
    for code in (OWN, DENSE):
        whole = trainer(code, **parts).run()
        output = tmp_path / f"out-{next(numbers)}"
        blocks = []
        first = trainer(code, output=output, **parts).run(
            on_block=blocks.append, should_stop=lambda blocks=blocks: bool(blocks)
        )
        assert first.stopped
        keras.layers.Dense(3)  # the names of layers without one do not depend on the process
        events = []
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
