"""The server and the trainer agree on models that cannot be trained on the data they name."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from ampspec.errors import TrainingError
from ampspec.jobs import JobSpec
from server.datasets.described_data import problems_of_data
from store.tables import DatasetVersion
from tests.tables import every_row

CLASSES = {"kind": "classification"}
NUMBERS = {"kind": "regression"}
FLATTEN = {"layer": "Flatten"}
ROWS = 200


def dense(units):
    return {"layer": "Dense", "units": units}


def embedding(rows):
    return {"layer": "Embedding", "input_dim": rows, "output_dim": 4}


def layers(shape, *entries, dtype="float32"):
    inputs = {"x": {"shape": shape, "dtype": dtype}}
    return {"kind": "layers", "inputs": inputs, "layers": list(entries)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Data of the kinds that people bring, as files."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    numbers, count = random.normal(size=(ROWS, 7)).astype(np.float32), np.arange(ROWS)
    arrays = {
        "digits": {"x": random.normal(size=(ROWS, 28, 28)).astype(np.float32), "y": count % 10},
        "sensors": {"x": numbers, "y": count % 4},
        "yields": {"x": numbers, "y": numbers[:, 0]},
        "positions": {"x": numbers, "y": numbers[:, :2]},
        "tags": {"x": numbers, "y": random.integers(0, 5, (ROWS, 3))},
        "reviews": {"x": random.integers(0, 500, (ROWS, 40)), "y": count % 2},
    }
    for name, columns in arrays.items():
        np.savez(folder / f"{name}.npz", **columns)
    homes = [f"{n % 5},{n * 1.5},Main St {n % 7},{n * 1000.5},{n % 300}" for n in count]
    (folder / "homes.csv").write_text("\n".join(["rooms,area,street,price,agent", *homes]))
    with zipfile.ZipFile(folder / "pets.zip", "w") as pets:
        for n in range(40):
            file = io.BytesIO()
            Image.new("RGB", (24, 16)).save(file, "PNG")
            pets.writestr(f"{'cat' if n % 2 else 'dog'}/{n}.png", file.getvalue())
    with zipfile.ZipFile(folder / "pets.zip") as pets:
        pets.extractall(folder / "pets")
    paths = {path.stem: path for path in folder.iterdir() if path.suffix in (".npz", ".csv")}
    return paths | {"pets": folder / "pets"}


@pytest.fixture(scope="module")
def described(files):
    """What the server knows of each file."""
    from ampdata.description import describe
    from server.child.inspect_upload import describe_file

    return {name: describe_file(path, describe) for name, path in files.items()}


def problems(described, document):
    spec = JobSpec.parse(document)
    found = described[spec.data.dataset]
    facts = {name: found[name] for name in ("state", "kind", "rows", "columns")}
    return problems_of_data(spec, DatasetVersion(**facts), f"{spec.data.dataset}@1")


def build(files, document):
    """Load the data and build the model, as the trainer does."""
    from ampcore.diagnostics.preflight.model_preflight import preflight_on_device

    return preflight_on_device(JobSpec.parse(document), datasets=files)


def job(dataset, model, task=None, **data):
    kind = {"homes": "csv", "pets": "images"}.get(dataset, "npz")
    document = {"model": model, "data": {"kind": kind, "dataset": dataset, "batch_size": 8, **data}}
    return document if task is None else document | {"task": task}


HOMES = {"inputs": ["rooms", "area"], "target": "price"}
KEYS = {"preprocessing": {"agent": {"keys": True}}, "inputs": ["agent"], "target": "rooms"}
TOKENS = {"preprocessing": {"x": {"keys": True}}}

MISFITS = [
    (
        job("homes", {"kind": "mlp"}, target="rooms", preprocessing={"*": {"normalize": True}}),
        "/data/preprocessing/*",
        "categories or tokens, for text (street of homes@1)",
    ),
    (
        job("digits", layers([28, 28, 1], FLATTEN, dense(10)), CLASSES),
        "/model/inputs/x/shape",
        "[28, 28], the shape of x of digits@1",
    ),
    (
        job("digits", layers([784], dense(10)), CLASSES),
        "/model/inputs/x/shape",
        "[28, 28], the shape of x of digits@1",
    ),
    (
        job("sensors", layers([8], dense(4)), CLASSES),
        "/model/inputs/x/shape",
        "[7], the shape of x of sensors@1",
    ),
    (
        job("homes", layers([3], dense(1)), NUMBERS, **HOMES),
        "/model/inputs/x/shape",
        "[2], the shape of rooms and area of homes@1",
    ),
    (
        job("pets", layers([32, 32, 3], FLATTEN, dense(2)), CLASSES),
        "/model/inputs/x/shape",
        "[16, 24, 3], the shape of image of pets@1, or data.size that fits",
    ),
    (
        job("pets", layers([32, 32, 3], FLATTEN, dense(2)), CLASSES, size=[8, 8]),
        "/model/inputs/x/shape",
        "[8, 8, 3], the shape of image of pets@1, or data.size that fits",
    ),
    (
        job("yields", {"kind": "mlp"}),
        "/data/target",
        "classes: whole numbers, names, or one-hot rows (or task.kind: regression), in y of "
        "yields@1",
    ),
    (
        job("homes", {"kind": "mlp"}, **HOMES),
        "/data/target",
        "classes: whole numbers, names, or one-hot rows (or task.kind: regression), in price of "
        "homes@1",
    ),
    (
        job("homes", {"kind": "mlp"}, NUMBERS, inputs=["rooms", "price"], target="price"),
        "/data/inputs/features",
        "columns of homes@1 that are no targets",
    ),
    (
        job("tags", {"kind": "mlp"}, {"kind": "multi_label"}),
        "/data/target",
        "labels that are 0 or 1 (or task.kind: classification), in y of tags@1",
    ),
    (
        job("sensors", {"kind": "cnn"}),
        "/model/kind",
        "mlp, or another model for examples that are no images: those of sensors@1 have the "
        "shape [7]",
    ),
    (
        job("homes", {"kind": "resnet"}, target="rooms"),
        "/model/kind",
        "mlp, or another model for examples that are no images: those of homes@1 have the "
        "shape [?]",
    ),
    (
        job("digits", layers([28, 28], FLATTEN, dense(3)), CLASSES),
        "/model/layers/1/units",
        "at least 10 units, or `classes`: y of digits@1 has at least 10 classes",
    ),
    (
        job("pets", layers([16, 24, 3], FLATTEN, dense(1)), CLASSES),
        "/model/layers/1/units",
        "2 units, one for each class of label of pets@1",
    ),
    (
        job("positions", layers([7], dense(1)), NUMBERS),
        "/model/layers/0/units",
        "2 units, one for each number of y of positions@1",
    ),
    (
        job("homes", layers([2], dense(3)), NUMBERS, **HOMES),
        "/model/layers/0/units",
        "1 unit, one for each number of price of homes@1",
    ),
    (
        job("reviews", layers([40], embedding(500), FLATTEN, dense(2), dtype="int32"), CLASSES),
        "/model/inputs/x/dtype",
        "float32, or `keys: true` in data.preprocessing, for the numbers of x of reviews@1",
    ),
]


@every_row(("document", "pointer", "expected"), MISFITS)
def test_a_model_that_cannot_be_trained_on_the_data_is_refused(
    described, files, document, pointer, expected
):
    [problem] = problems(described, document)
    assert (problem.pointer, problem.expected) == (pointer, expected)
    with pytest.raises(TrainingError):
        build(files, document)


BEYOND = [
    (
        job(
            "reviews",
            layers([40], embedding(100), FLATTEN, dense(2), dtype="int32"),
            CLASSES,
            **TOKENS,
        ),
        "at least 500, since x of reviews@1 has the key 499, or `vocabulary`",
    ),
    (
        job("homes", layers([1], embedding(50), FLATTEN, dense(5), dtype="int32"), CLASSES, **KEYS),
        "at least 200, since agent of homes@1 has the key 199, or `vocabulary`",
    ),
]


@every_row(("document", "expected"), BEYOND)
def test_keys_beyond_their_table_are_refused(described, document, expected):
    [problem] = problems(described, document)
    assert (problem.pointer, problem.expected) == ("/model/layers/0/input_dim", expected)


@every_row(
    "document",
    [
        job("digits", {"kind": "cnn"}),
        job("digits", layers([28, 28], FLATTEN, dense("classes")), CLASSES),
        job("digits", layers([28, 28], FLATTEN, dense(10)), CLASSES),
        job("sensors", layers([7], dense(4)), CLASSES),
        job("positions", layers([7], dense(2)), NUMBERS),
        job("yields", {"kind": "mlp"}, NUMBERS),
        job("yields", layers([7], dense(1)), NUMBERS),
        job("homes", layers([2], dense(1)), NUMBERS, **HOMES),
        job("homes", {"kind": "mlp"}, target="rooms"),
        job("homes", {"kind": "mlp"}, target="street"),
        job("pets", {"kind": "cnn"}),
        job("pets", layers([16, 24, 3], FLATTEN, dense(2)), CLASSES),
        job(
            "reviews",
            layers([40], embedding(500), FLATTEN, dense(2), dtype="int32"),
            CLASSES,
            **TOKENS,
        ),
        job("sensors", {"kind": "mlp"}, {"kind": "autoencoding"}),
    ],
)
def test_what_can_be_trained_is_accepted(described, files, document):
    assert problems(described, document) == []
    build(files, document)
