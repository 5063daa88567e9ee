"""What installed packages offer: found by entry points, built with validated options."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from ampcore import optimizers
from ampcore import plugins as packages
from ampcore.data import load
from ampcore.objectives import build_metric, check_package_metric
from ampcore.training import Trainer
from ampspec.data.data import PackageData
from ampspec.errors import InvalidData, InvalidModel
from ampspec.objectives.metrics import PackageMetric
from ampspec.objectives.optimizer import PackageOptimizer
from infra.isolation import imported_files
from tests.installed_packages import install_example, write_broken

TOWERS = {"kind": "package", "package": "custom-package", "name": "two_towers"}
SMALL = {"data": {"kind": "digits", "batch_size": 718}, "train": {"steps": 2}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return install_example(tmp_path_factory.mktemp("package"))


@pytest.fixture
def installed(site, monkeypatch):
    """The example is installed."""
    monkeypatch.syspath_prepend(site)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "custom_package"]:
        del sys.modules[name]


@pytest.fixture
def install_broken(tmp_path, monkeypatch):
    """Installs a package with this code for its entry point."""

    def install(code, group="ampcore.models"):
        write_broken(tmp_path / "broken", code=code, group=group)
        monkeypatch.syspath_prepend(tmp_path / "broken")

    yield install
    sys.modules.pop("broken_one", None)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_model_of_a_package_is_trained_with_its_options(run_job, policy):
    model = TOWERS | {"options": {"units": 3, "filters": 2}}
    run = run_job(model=model, precision={"policy": policy}, **SMALL)
    towers = (9 * 2 + 2) + (64 * 3 + 3)
    assert run.result.parameters == towers + (5 * 3 + 3) + (3 * 10 + 10)
    assert run.result.steps == 2
    assert run.result.policy == policy


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"options": {"units": 0}},
            r"model\.options\.units: expected .*greater than or equal to 1",
        ),
        ({"options": {"unit": 1}}, r"model\.options\.unit: expected Extra inputs"),
        ({"name": "towers"}, "two_towers of custom-package; received towers of custom-package"),
        ({"package": "other"}, "two_towers of custom-package; received two_towers of other"),
    ],
)
def test_a_mistake_is_an_error_that_names_the_field(run_job, model, message):
    run = run_job(model=TOWERS | model, fails=InvalidModel, **SMALL)
    assert run.error.reason == "invalid_spec"
    with pytest.raises(InvalidModel, match=message):
        raise run.error


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import missing_one", "ModuleNotFoundError: No module named 'missing_one'"),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("entry = 3", "expected an ampcore.plugins.PackageModel as broken_one:entry"),
        (
            "from ampcore.plugins import PackageModel\nentry = PackageModel(lambda *_: 3)",
            "expected any of broken-one to return a built keras.Model",
        ),
        (
            "from ampcore.plugins import PackageModel\nentry = PackageModel(lambda *_: 1 / 0)",
            "ZeroDivisionError",
        ),
    ],
)
def test_a_broken_package_is_an_error_with_its_cause(run_job, install_broken, code, message):
    install_broken(code)
    model = {"kind": "package", "package": "broken-one", "name": "any"}
    assert message in str(run_job(model=model, fails=InvalidModel, **SMALL).error)


def package_loss(**fields):
    """A task with a loss of the example, or of the package with these fields."""
    loss = {"kind": "package", "package": "custom-package", "name": "quantile"} | fields
    return {"kind": "regression", "loss": loss}


@pytest.fixture
def numbers(tmp_path):
    """Data with 32 examples of 3 numbers, and two numbers to predict for each."""
    x = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)
    np.savez(tmp_path / "numbers.npz", x=x, y=x[:, :2] + x[:, 2:])
    data = {"kind": "npz", "path": "numbers.npz", "batch_size": 8, "validation_split": 0.5}
    return {"data": data, "data_root": tmp_path, "model": {"kind": "mlp"}, "train": {"steps": 4}}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_loss_of_a_package_is_trained_with_its_options(run_job, numbers, policy):
    precision = {"policy": policy}
    half = run_job(task=package_loss(), precision=precision, **numbers).result
    assert half.metrics["val_loss"] == pytest.approx(half.metrics["val_mae"] / 2, rel=1e-5)
    high = run_job(
        task=package_loss(options={"quantile": 0.99}), precision=precision, **numbers
    ).result
    assert high.metrics["val_mae"] != half.metrics["val_mae"]


LOSS = "import keras\nfrom ampcore.plugins import PackageLoss\nentry = PackageLoss({})"


@pytest.mark.parametrize(
    ("function", "task"),
    [
        ("lambda options: keras.losses.LogCosh()", "regression"),
        ("lambda options: lambda y, p: keras.ops.mean((y - p) ** 2)", "regression"),
        (
            "lambda options: keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
            "classification",
        ),
        ("lambda options: lambda y, p: keras.ops.mean((y - p) ** 2, axis=-1)", "autoencoding"),
    ],
)
def test_a_loss_may_be_an_object_or_a_function_for_every_task(
    run_job, numbers, install_broken, function, task
):
    install_broken(LOSS.format(function), "ampcore.losses")
    loss = {"kind": "package", "package": "broken-one", "name": "any"}
    data = {"data": {"kind": "digits", "batch_size": 718}} if task == "classification" else {}
    run = run_job(task={"kind": task, "loss": loss}, **numbers | data)
    assert np.isfinite(run.result.metrics["val_loss"])
    assert run.result.steps == 4


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("lambda options: 1 / 0", "any of broken-one to build a loss; received ZeroDivisionError"),
        ("lambda options: 3", "task.loss.package: expected the name of a loss in keras.losses"),
        ("lambda options: lambda y, p: 1 / 0", "or their mean; received ZeroDivisionError"),
        ("lambda options: lambda y, p: (y - p)[0]", "or their mean; received shape [2]"),
        (
            "lambda options: keras.losses.MeanSquaredError(reduction=None)",
            "expected a loss with a reduction",
        ),
        (
            "lambda options: keras.losses.MeanSquaredError(dtype='float16')",
            "any of broken-one to compute in float32; received float16",
        ),
    ],
)
def test_a_broken_loss_is_an_error_with_its_cause(
    run_job, numbers, install_broken, function, message
):
    install_broken(LOSS.format(function), "ampcore.losses")
    task = package_loss(package="broken-one", name="any")
    assert message in str(run_job(task=task, fails=InvalidModel, **numbers).error)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"quantile": 1.0}}, r"task\.loss\.options\.quantile: expected .*less than 1"),
        ({"name": "other"}, r"task\.loss\.name: .*: quantile of custom-package; received other of"),
    ],
)
def test_a_mistake_in_a_loss_is_an_error_that_names_the_field(run_job, numbers, fields, message):
    with pytest.raises(InvalidModel, match=message):
        raise run_job(task=package_loss(**fields), fails=InvalidModel, **numbers).error


def package_metric(**fields):
    """A task with a metric of the example, or of the package with these fields."""
    metric = {"kind": "package", "package": "custom-package", "name": "within"} | fields
    return {"kind": "regression", "metrics": ["mae", metric]}


@pytest.mark.usefixtures("installed")
def test_a_metric_of_a_package_is_reported_under_its_name_with_its_options(run_job, numbers):
    wide = run_job(task=package_metric(options={"tolerance": 1e6}), **numbers).result
    assert set(wide.metrics) == {"val_loss", "val_mae", "val_within"}
    assert wide.metrics["val_within"] == 1
    narrow = run_job(task=package_metric(options={"tolerance": 1e-9}), **numbers).result
    assert narrow.metrics["val_within"] == 0
    assert narrow.metrics["val_mae"] == wide.metrics["val_mae"]


METRIC = "import keras\nfrom ampcore.plugins import PackageMetric\nentry = PackageMetric({})"
OF_CLASSES = (tf.TensorSpec((), tf.int32), tf.TensorSpec((3,), tf.float32))
OF_NUMBERS = (tf.TensorSpec((2,), tf.float32), tf.TensorSpec((2,), tf.float32))


def built_metric(install_broken, function, specs=OF_NUMBERS):
    """The metric that this function of a package builds, checked with these shapes."""
    install_broken(METRIC.format(function), "ampcore.metrics")
    spec = PackageMetric(package="broken-one", name="any")
    metric = build_metric(spec, 2, has_classes=specs is OF_CLASSES)
    check_package_metric(spec, metric, *specs)
    return metric


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        ("lambda options: keras.metrics.MeanSquaredError(name='other')", OF_NUMBERS),
        ("lambda options: lambda y, p: keras.ops.mean(keras.ops.abs(y - p), axis=-1)", OF_NUMBERS),
        ("lambda options: keras.metrics.SparseCategoricalAccuracy()", OF_CLASSES),
        ("lambda options: keras.metrics.F1Score()", OF_NUMBERS),  # a number for each output
    ],
)
def test_a_metric_may_be_an_object_or_a_function(install_broken, function, specs):
    metric = built_metric(install_broken, function, specs)
    assert metric.name == "any"
    assert metric.variables


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "lambda options: 1 / 0",
            "any of broken-one to build a metric; received ZeroDivisionError",
        ),
        ("lambda options: 3", "to return a keras.metrics.Metric, or a function .* received int"),
        ("lambda options: lambda y, p: 1 / 0", "for these targets; received ZeroDivisionError"),
        ("lambda options: lambda y, p: keras.ops.mean(y - p)", "for each example; received shape"),
        ("lambda options: keras.metrics.Mean(dtype='float16')", "in float32; received float16"),
    ],
)
def test_a_broken_metric_is_an_error_with_its_cause(install_broken, function, message):
    with pytest.raises(InvalidModel, match=rf"^task\.metrics\.package: expected.*{message}"):
        built_metric(install_broken, function)


@pytest.mark.usefixtures("installed")
def test_a_mistake_in_the_options_of_a_metric_names_the_field():
    spec = PackageMetric(package="custom-package", name="within", options={"tolerance": 0})
    with pytest.raises(InvalidModel, match=r"task\.metrics\.options\.tolerance: expected .*than 0"):
        build_metric(spec, 2, has_classes=False)


def package_optimizer(**fields):
    """The optimizer of the example, or of the package with these fields."""
    optimizer = {"kind": "package", "package": "custom-package", "name": "signum"}
    return optimizer | {"learning_rate": 0.01} | fields


@pytest.mark.usefixtures("installed")
def test_a_job_with_an_optimizer_of_a_package_resumes_exactly(run_job, numbers, tmp_path):
    parts = {
        **{name: part for name, part in numbers.items() if name != "train"},
        "task": {"kind": "regression"},
        "optimizer": package_optimizer(schedule={"kind": "cosine", "end_step": 12}),
        "precision": {"policy": "mixed_float16"},
        "loss_scale": {"mode": "dynamic", "initial": 2.0**18},
    }
    whole = run_job(output_dir=tmp_path / "whole", train={"steps": 12}, **parts)
    run_job(output_dir=tmp_path / "parts", train={"steps": 6}, **parts)
    rest = run_job(output_dir=tmp_path / "parts", resume=True, train={"steps": 12}, **parts)
    assert rest.steps.first_step == 6
    assert rest.result.weights_digest == whole.result.weights_digest
    assert whole.result.skipped > 0


@pytest.mark.usefixtures("installed")
def test_from_keras_takes_an_optimizer_of_a_package_as_in_a_spec():
    import keras

    def weight(optimizer):
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)]
        )
        data = (np.ones((8, 3), np.float32), np.zeros(8, np.float32))
        settings = {"loss": "mse", "batch_size": 8, "runtime": {"engine": "graph"}}
        Trainer.from_keras(model, data=data, optimizer=optimizer, **settings).run()
        return model.get_weights()[0]

    np.testing.assert_allclose(weight(package_optimizer(learning_rate=0.25)), 0.75)


OPTIMIZER = (
    "import keras\nfrom ampcore.plugins import PackageOptimizer\n"
    "class Failing(keras.optimizers.SGD):\n"
    "    def update_step(self, gradient, variable, learning_rate):\n        1 / 0\n"
    "kept = keras.optimizers.SGD(0.5)\n"
    "shared = keras.optimizers.SGD(0.5)\nshared.build([])\n"
    "entry = PackageOptimizer(lambda options, rate: RETURNED)"
)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("1 / 0", "to build an optimizer; received ZeroDivisionError"),
        ("3", "to return a keras.optimizers.Optimizer; received int"),
        ("keras.optimizers.SGD(0.1)", "the learning rate that it is given, 0.5; received 0.1"),
        ("kept", "a new optimizer; received one that was built"),
        ("shared", "a new optimizer; received one that was built"),
        (
            "keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(rate))",
            "without a loss scale; received LossScaleOptimizer",
        ),
        (
            "keras.optimizers.SGD(rate, loss_scale_factor=2)",
            "without a loss scale; received loss_scale_factor=2",
        ),
        ("Failing(rate)", "to update a weight; received ZeroDivisionError"),
    ],
)
def test_a_broken_optimizer_is_an_error_with_its_cause(install_broken, returned, message):
    install_broken(OPTIMIZER.replace("RETURNED", returned), "ampcore.optimizers")
    spec = PackageOptimizer(package="broken-one", name="any", learning_rate=0.5)
    with pytest.raises(InvalidModel, match=rf"^optimizer\.package: expected any of .*{message}"):
        optimizers.build(spec, 10)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"momentum": 1.0}}, r"optimizer\.options\.momentum: expected .*less than 1"),
        ({"name": "other"}, r"optimizer\.name: .*: signum of custom-package; received other of"),
    ],
)
def test_a_mistake_in_an_optimizer_is_an_error_that_names_the_field(fields, message):
    spec = PackageOptimizer.model_validate(package_optimizer(**fields))
    with pytest.raises(InvalidModel, match=message):
        optimizers.build(spec, 10)


def package_data(**fields):
    """The dataset of the example, or of the package with these fields."""
    data = {"kind": "package", "package": "custom-package", "name": "discs", "batch_size": 8}
    return data | fields


@pytest.mark.usefixtures("installed")
def test_a_job_trains_a_model_with_a_loss_on_a_dataset_of_a_package(run_job):
    data = package_data(options={"examples": 200, "size": 8}, validation_split=0.25)
    run = run_job(model=TOWERS, data=data, task=package_loss(), train={"epochs": 2})
    assert run.result.steps == 2 * (150 // 8)
    again = run_job(model=TOWERS, data=data, task=package_loss(), train={"epochs": 2})
    assert again.without_times == run.without_times
    assert again.result.metrics == run.result.metrics


@pytest.mark.usefixtures("installed")
def test_a_job_on_a_dataset_of_a_package_resumes_exactly(run_job, tmp_path):
    data = package_data(options={"examples": 100, "size": 8, "noise": 1.0})
    parts = {"data": data, "model": {"kind": "mlp"}, "task": {"kind": "regression"}}
    whole = run_job(output_dir=tmp_path / "whole", train={"steps": 12}, **parts).result
    run_job(output_dir=tmp_path / "parts", train={"steps": 6}, **parts)
    rest = run_job(output_dir=tmp_path / "parts", resume=True, train={"steps": 12}, **parts)
    assert rest.steps.first_step == 6
    assert rest.result.weights_digest == whole.weights_digest


DATASET = (
    "import numpy as np\nfrom ampcore.plugins import PackageDataset\n"
    "x, y = np.arange(60.0).reshape(20, 3), np.arange(20) % 2\n"
    "entry = PackageDataset(lambda options, seed: RETURNED)"
)


@pytest.mark.parametrize(
    ("returned", "training", "classes"),
    [
        ("(x, y)", 16, 2),
        ("(x, y, x[:5], y[:5])", 20, 2),
        ("{'x': x, 'y': y}", 16, 2),
        ("{'x_train': x, 'y_train': y, 'x_test': x, 'y_test': y}", 20, 2),
        ("{'a': x[:, 0], 'b': x[:, 1], 'y': np.array(['no', 'yes'])[y]}", 16, 2),
    ],
)
def test_a_dataset_is_arrays_with_or_without_names(install_broken, returned, training, classes):
    install_broken(DATASET.replace("RETURNED", returned), "ampcore.datasets")
    spec = PackageData.model_validate(package_data(package="broken-one", name="any"))
    dataset = load(spec)
    assert len(dataset.train) == training
    assert dataset.signature.classes == classes
    assert dataset.validation is not None


def test_columns_of_a_dataset_have_roles_and_preprocessing(install_broken):
    install_broken(
        DATASET.replace("RETURNED", "{'a': x[:, 0], 'b': x[:, 1], 'c': y}"), "ampcore.datasets"
    )
    columns = {"inputs": {"x": ["a", "b"]}, "target": "c"}
    columns |= {"preprocessing": {"a": {"normalize": True}}, "validation_split": 0.5}
    spec = PackageData.model_validate(package_data(package="broken-one", name="any", **columns))
    dataset = load(spec)
    x = dataset.train.read(np.arange(10)).x
    assert x.shape == (10, 2)
    assert x[:, 0].mean() == pytest.approx(0, abs=1e-6)
    np.testing.assert_array_equal(x[:, 1], 3 * np.arange(10) + 1)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("1 / 0", "any of broken-one: expected arrays; received ZeroDivisionError"),
        ("3", "or arrays by name; received int"),
        ("(x, y, x)", "or arrays by name; received a tuple of 3"),
        ("dict()", "or arrays by name; received no arrays"),
        ("(x, y[:5])", "any of broken-one, y: expected 20 rows, as many as x; received 5"),
        ("(x[:0], y[:0])", "any of broken-one, x: expected at least one row; received none"),
        ("(x.astype(object), y)", "any of broken-one, x: .* received dtype object"),
        ("(x + 1j, y)", "any of broken-one, x: .* received dtype complex128"),
        ("(x, y.tolist())", "any of broken-one, y: expected a NumPy array .* received list"),
        ("(x, np.array(3))", "any of broken-one, y: .* received one number"),
        ("(x * np.nan, y)", "any of broken-one, row 1, column x: .* received nan"),
        ("(x, y + 0.5)", "any of broken-one, y: expected classes"),
        ("(x[:2], y[:2])", "any of broken-one, batch_size: expected at most 1"),
    ],
)
def test_bad_arrays_are_an_error_that_names_the_dataset(install_broken, returned, message):
    install_broken(DATASET.replace("RETURNED", returned), "ampcore.datasets")
    spec = PackageData.model_validate(package_data(package="broken-one", name="any"))
    with pytest.raises(InvalidData, match=message):
        load(spec)


@pytest.mark.usefixtures("installed")
def test_a_mistake_in_the_options_of_a_dataset_names_the_field():
    spec = PackageData.model_validate(package_data(options={"size": 2}))
    with pytest.raises(InvalidModel, match=r"data\.options\.size: expected .*equal to 4"):
        load(spec)


@pytest.mark.usefixtures("installed")
def test_each_entry_point_is_described_with_its_schema_or_its_error(install_broken):
    install_broken("import missing_one")
    found = {one["name"]: one for one in packages.descriptions()}
    towers, loss, broken = found["two_towers"], found["quantile"], found["any"]
    assert (towers["package"], towers["version"]) == ("custom-package", "1.0")
    assert [one["group"] for one in (towers, loss)] == ["ampcore.models", "ampcore.losses"]
    assert found["discs"]["group"] == "ampcore.datasets"
    assert found["within"]["schema"]["properties"]["tolerance"]["exclusiveMinimum"] == 0
    assert found["signum"]["group"] == "ampcore.optimizers"
    assert loss["schema"]["properties"]["quantile"]["exclusiveMaximum"] == 1
    assert set(towers["schema"]["properties"]) == {"units", "filters"}
    assert towers["description"].startswith("Two towers over an image")
    assert "missing_one" in broken["error"]
    packages.load_all()


@pytest.mark.usefixtures("installed")
def test_a_confined_trainer_may_read_the_files_of_packages(site):
    packages.load_all()
    assert site / "custom_package" in imported_files()


@pytest.mark.parametrize(
    "name", ["custom-package", "Custom_Package", "custom.package", "custom__package"]
)
def test_the_names_of_packages_are_normalized(name):
    assert packages.normalized(name) == "custom-package"
