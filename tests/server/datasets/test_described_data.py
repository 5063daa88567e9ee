"""A spec that does not fit its dataset is refused when it is submitted, not when it runs."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ampspec.errors import InvalidData
from ampspec.jobs import JobSpec
from server.datasets.describe import run_program
from server.datasets.described_data import problems_of_data
from store.tables import DatasetVersion
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: nothing here depends on the database."""
    return sqlite_url


MODEL = {"kind": "mlp"}


def table(rows=200):
    lines = [
        f"{row},{'' if row % 50 == 0 else row * 2},{'Ulm' if row % 2 else 'Bonn'}"
        for row in range(rows)
    ]
    return "\n".join(["age,income,city", *lines]).encode()


def archive():
    file = io.BytesIO()
    np.savez(
        file,
        X_train=np.eye(300),
        Y_train=np.arange(300) % 2,
        X_test=np.eye(30, 300),
        Y_test=np.arange(30) % 2,
    )
    return file.getvalue()


def pictures(tmp_path):
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as folder:
        for name, side in (("cat/1", 8), ("cat/2", 9), ("dog/1", 8), ("dog/2", 8)):
            file = io.BytesIO()
            Image.new("RGB", (side, side)).save(file, "PNG")
            folder.writestr(f"{name}.png", file.getvalue())
    return (tmp_path / "pets.zip").read_bytes()


@pytest.fixture(scope="module")
def run_once():
    """Runs the program that describes a file, once for each content."""
    outputs = {}

    def run(command, timeout_s):
        content = Path(command[-2]).read_bytes()
        if content not in outputs:
            outputs[content] = run_program(command, timeout_s)
        return outputs[content]

    return run


@pytest.fixture
def datasets(api, tmp_path, monkeypatch, run_once):
    """A table, an archive, pictures and a text."""
    monkeypatch.setattr("server.datasets.describe.run_program", run_once)
    files = {
        "people": ("people.csv", table()),
        "eyes": ("eyes.npz", archive()),
        "pets": ("pets.zip", pictures(tmp_path)),
        "poem": ("poem.txt", b"a poem\n" * 99),
    }
    for name, (file, content) in files.items():
        answer = api.client.put(f"/api/v1/datasets/{name}", content=content, params={"file": file})
        assert answer.json()["state"] == "described", answer.text


def problems(api, data, path="", **parts):
    answer = api.client.post(f"/api/v1/jobs{path}", json={"model": MODEL, "data": data} | parts)
    if answer.status_code in (200, 201):
        return {}
    assert answer.status_code == 422, answer.text
    return {one["pointer"]: one["detail"] for one in answer.json()["errors"]}


BUNDLE = {"kind": "bundle", "bundle": "sha256:" + "0" * 64}
PEOPLE = {"kind": "csv", "dataset": "people", "missing": "keep", "target": "city"}
EYES = {"kind": "npz", "dataset": "eyes"}
PETS = {"kind": "images", "dataset": "pets", "size": [8, 8], "batch_size": 2}


def two_outputs(**outputs):
    """The parts of a spec that predicts `age` and `income` of people, as the outputs say."""
    layers = [
        {"layer": "Dense", "name": name, "units": 1, "inputs": ["input"]}
        for name in ("age", "earnings")
    ]
    task = {"task": {"kind": "regression"}}
    return {
        "model": {"kind": "layers", "layers": layers, "outputs": ["age", "earnings"]},
        "task": {
            "kind": "outputs",
            "outputs": {"age": task, "earnings": task | outputs},
        },
    }


TEXT_AS_NUMBERS = {"city": {"normalize": True}}
LEAVE_OUT = {"missing_targets": "leave_out"}
OUTPUTS = PEOPLE | {"target": None, "inputs": ["city"]}


@pytest.mark.slow
def test_options_that_a_spec_leaves_to_the_file_are_those_of_the_description(api):
    text = "Land;Größe;y\n" + "".join(f"L{row};{row},5;{row % 2}\n" for row in range(200))
    upload = {"content": text.encode("windows-1252"), "params": {"file": "states.csv"}}
    version = api.client.put("/api/v1/datasets/states", **upload).json()
    assert [(one["name"], one["dtype"]) for one in version["columns"]] == [
        ("Land", "string"),
        ("Größe", "float64"),
        ("y", "int64"),
    ]
    data = {"kind": "csv", "dataset": "states", "target": "y"}
    stored = api.client.post("/api/v1/jobs", json={"model": MODEL, "data": data}).json()["spec"]
    options = {"delimiter": ";", "decimal_point": ",", "encoding": "windows-1252", "header": True}
    assert stored["data"].items() >= options.items()
    other = data | {"delimiter": ",", "target": "column_1"}
    assert problems(api, other) == {}, "options of a spec decide which columns there are"


@pytest.mark.slow
def test_fractions_are_no_classes_and_arrays_have_their_shapes(api):
    table = "a,b,y\n" + "".join(f"{row},{row}.5,{row / 3:.4f}\n" for row in range(200))
    content = {"content": table.encode(), "params": {"file": "halves.csv"}}
    api.client.put("/api/v1/datasets/halves", **content)
    data = {"kind": "csv", "dataset": "halves", "target": "y"}
    assert problems(api, data, task={"kind": "classification"}) == {
        "/data/target": "Expected classes: whole numbers, names, or one-hot rows (or task.kind: "
        "regression), in y of halves@1; received numbers with fractions."
    }
    assert problems(api, data, task={"kind": "regression"}) == {}
    file = io.BytesIO()
    np.savez(file, x=np.zeros((200, 28, 28), np.uint8), y=np.arange(200) % 10)
    content = {"content": file.getvalue(), "params": {"file": "digits.npz"}}
    api.client.put("/api/v1/datasets/squares", **content)
    layers = [{"layer": "Flatten"}, {"layer": "Dense", "units": 10}]
    model = {"kind": "layers", "inputs": {"x": {"shape": [28, 28, 1]}}, "layers": layers}
    data = {"kind": "npz", "dataset": "squares"}
    assert problems(api, data | {"inputs": ["x"]}, model=model) == {
        "/model/inputs/x/shape": "Expected [28, 28], the shape of x of squares@1; received "
        "[28, 28, 1]."
    }


@pytest.mark.slow
def test_an_invalid_dataset_takes_no_job_that_does_not_say_how_to_read_it(api):
    upload = {"content": b"a,b\n1,2\n" + b"1,2,3\n" * 200, "params": {"file": "bad.csv"}}
    assert api.client.put("/api/v1/datasets/bad", **upload).json()["state"] == "invalid"
    data = {"kind": "csv", "dataset": "bad", "target": "b"}
    detail = problems(api, data)["/data/dataset"]
    assert detail.startswith("Expected a dataset that can be read, or options of the format")
    assert "bad.csv, line 3: expected 2 cells" in detail
    assert problems(api, data | {"skip_lines": 2, "header": False, "target": "column_1"}) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("datasets")
@every_row(
    ("data", "pointer", "detail"),
    [
        (
            PEOPLE | {"kind": "parquet"},
            "/data/kind",
            "Expected csv, the format of people@1; received parquet.",
        ),
        (
            {"kind": "npz", "dataset": "poem"},
            "/data/kind",
            "Expected text, the format of poem@1; received npz.",
        ),
        (
            PEOPLE | {"batch_size": 201},
            "/data/batch_size",
            "Expected at most 200, the number of training examples of people@1; received 201.",
        ),
        (
            PEOPLE | {"batch_size": 101, "validation_split": 0.5},
            "/data/batch_size",
            "Expected at most 100, the number of training examples of people@1 with "
            "validation_split 0.5; received 101.",
        ),
        (
            PEOPLE | {"missing": "error"},
            "/data/missing",
            "Expected keep, since the column income of people@1 has 4 rows without a value; "
            "received error.",
        ),
        (
            PEOPLE | {"target": "City"},
            "/data/target",
            'Expected a column of people@1: age, income, city; received "City". '
            "Did you mean 'city'?",
        ),
        (
            PEOPLE | {"target": None},
            "/data/target",
            "Expected the column to predict, one of age, income, city; received none.",
        ),
        (
            PEOPLE | {"inputs": ["age", "size"]},
            "/data/inputs/features",
            'Expected a column of people@1: age, income, city; received "size".',
        ),
        (
            PEOPLE | {"preprocessing": {"town": {"normalize": True}}},
            "/data/preprocessing/town",
            'Expected a column of people@1: age, income, city; received "town".',
        ),
        (
            PETS | {"size": None},
            "/data/size",
            "Expected [height, width], since the images of pets@1 have several sizes; "
            "received none.",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_at_once(api, data, pointer, detail):
    assert problems(api, data) == {pointer: detail}
    assert problems(api, data, "/validate") == {pointer: detail}


@pytest.mark.usefixtures("datasets")
@every_row(
    ("data", "parts", "pointer", "detail"),
    [
        (
            PEOPLE | {"batch_size": 100},
            {"train": {"accumulate": 3}},
            "/train/accumulate",
            "Expected at most 2, the number of batches of 100 in the 200 training examples of "
            "people@1; received 3.",
        ),
        (
            OUTPUTS,
            two_outputs(target="incom"),
            "/task/outputs/earnings/target",
            'Expected a column of people@1: age, income, city; received "incom". '
            "Did you mean 'income'?",
        ),
        (
            OUTPUTS,
            two_outputs(),
            "/data/targets/earnings",
            'Expected a column of people@1: age, income, city; received "earnings".',
        ),
    ],
)
def test_other_parts_of_the_spec_are_checked_too(api, data, parts, pointer, detail):
    assert problems(api, data, **parts) == {pointer: detail}


@pytest.mark.usefixtures("datasets")
@every_row(
    ("data", "parts"),
    [
        (PEOPLE, {}),
        (PEOPLE, {"task": {"kind": "classification"}}),
        (PEOPLE | {"preprocessing": {"*": {"missing": "zero"}}}, {}),
        (PEOPLE | {"missing": "error", "missing_values": ["-"]}, {}),  # the job will see
        (PEOPLE | {"target": "column_3", "header": False}, {}),
        (PEOPLE | {"target": None}, {"task": {"kind": "autoencoding"}}),
        (OUTPUTS | LEAVE_OUT, two_outputs(target="income")),
        (
            OUTPUTS | LEAVE_OUT | {"targets": {"earnings": ["income"]}},
            two_outputs(target="pay"),
        ),
        ({"kind": "csv", "dataset": "poem", "target": "a"}, {}),
        (EYES, {}),
        (EYES | {"x": "X", "y": "Y"}, {}),
        (PETS, {}),
        ({"kind": "text", "dataset": "poem"}, {"model": {"kind": "lstm_lm"}}),
        ({"kind": "text", "dataset": "people"}, {"model": {"kind": "lstm_lm"}}),
    ],
)
def test_what_may_be_trained_is_accepted(api, data, parts):
    assert problems(api, data, **parts) == {}


@pytest.mark.usefixtures("datasets")
def test_validation_and_studies_refuse_what_a_submission_refuses(api):
    data = {"kind": "npz", "dataset": "eyes"}
    inputs = {"x": {"shape": [299]}}
    layers = [{"layer": "Dense", "units": 2}]
    model = {"kind": "layers", "inputs": inputs, "layers": layers}
    detail = "Expected [300], the shape of X of eyes@1; received [299]."
    assert problems(api, data, model=model) == {"/model/inputs/x/shape": detail}
    assert problems(api, data, "/validate", model=model) == {"/model/inputs/x/shape": detail}
    study = {"kind": "capacity", "spec": {"model": model, "data": data}}
    for path in ("/api/v1/studies", "/api/v1/studies/estimate"):
        answer = api.client.post(path, json=study)
        assert answer.status_code == 422
        [error] = answer.json()["errors"]
        assert (error["pointer"], error["detail"]) == ("/spec/model/inputs/x/shape", detail)


@pytest.mark.usefixtures("datasets")
def test_a_description_with_strange_columns_does_no_harm(api):
    from sqlalchemy import update

    from store.tables import DatasetVersion

    with api.database.write() as session:
        strange = [{}, {"name": 3, "shape": 4, "missing": "many", "dtype": []}]
        session.execute(update(DatasetVersion).values(columns=strange))
    assert set(problems(api, PEOPLE)) == {"/data/target"}


@pytest.mark.parametrize(("model", "pointers"), [(MODEL, ["/data/batch_size"]), (BUNDLE, [])])
def test_the_function_of_a_bundle_may_make_more_examples_than_there_are_rows(model, pointers):
    version = DatasetVersion(state="described", kind="csv", rows=200, columns=[{"name": "city"}])
    spec = JobSpec.parse({"model": model, "data": PEOPLE | {"batch_size": 201}})
    assert [one.pointer for one in problems_of_data(spec, version, "people@1")] == pointers


def files(tmp_path):
    """The files of `datasets`, without a server."""
    paths = {"people": "people.csv", "eyes": "eyes.npz", "pets": "pets.zip", "poem": "poem.txt"}
    contents = (table(), archive(), pictures(tmp_path), b"a poem\n" * 99)
    for name, content in zip(paths.values(), contents, strict=True):
        (tmp_path / name).write_bytes(content)
    # Not the archive: only a trainer's end closes that.
    with zipfile.ZipFile(tmp_path / "pets.zip") as folder:
        folder.extractall(tmp_path / "pets")
    halves = "".join(f"{row},{row / 2}\n" for row in range(200))
    (tmp_path / "halves.csv").write_text(f"row,half\n{halves}")
    others = {"pets": tmp_path / "pets", "halves": tmp_path / "halves.csv"}
    return {name: tmp_path / file for name, file in paths.items()} | others


HALVES = {"kind": "csv", "dataset": "halves", "inputs": ["row"], "target": "half"}
PAID = {"kind": "csv", "dataset": "people", "inputs": ["age"], "target": "income"}
FILLED = PEOPLE | {"preprocessing": {"income": {"missing": "mean"}}}
"""What a trainer can read, too: it needs a number in every row."""


@every_row(
    ("data", "parts", "pointer", "message"),
    [
        (PEOPLE | {"kind": "parquet"}, {}, "/data/kind", "people.csv: expected .*Parquet"),
        ({"kind": "npz", "dataset": "poem"}, {}, "/data/kind", "poem.txt: expected a zip archive"),
        (FILLED | {"batch_size": 201}, {}, "/data/batch_size", "batch_size: expected at most"),
        (
            FILLED | {"batch_size": 101, "validation_split": 0.5},
            {},
            "/data/batch_size",
            "batch_size: expected at most 100, .* received 101",
        ),
        (PEOPLE | {"missing": "error"}, {}, "/data/missing", "column income: expected"),
        (PEOPLE | {"target": "City"}, {}, "/data/target", "expected .*age, income, city.*City"),
        (PEOPLE | {"target": None}, {}, "/data/target", "target: expected .*age, income, city"),
        (PEOPLE | {"inputs": ["age", "size"]}, {}, "/data/inputs/features", "inputs.* size"),
        (
            PEOPLE | {"preprocessing": {"town": {"normalize": True}}},
            {},
            "/data/preprocessing/town",
            "preprocessing\\.town: expected an input column",
        ),
        (PETS | {"size": None}, {}, "/data/size", "the option `size`; received 9 × 9"),
        (PETS | {"batch_size": 5}, {}, "/data/batch_size", "batch_size: expected at most"),
        (
            FILLED | {"batch_size": 100, "validation_split": 0.0},
            {"train": {"accumulate": 3}},
            "/train/accumulate",
            "train.accumulate: expected at most 2, the number of batches .* received 3",
        ),
        (
            PEOPLE | {"target": "age", "inputs": ["city"], "preprocessing": TEXT_AS_NUMBERS},
            {},
            "/data/preprocessing/city",
            "preprocessing.city: expected categories or tokens, for text",
        ),
        (
            PEOPLE | {"inputs": ["age"], "preprocessing": {"age": {"tokens": {}}}},
            {},
            "/data/preprocessing/age",
            "preprocessing.age: expected rescaling, normalize, missing or categories, for int64",
        ),
        (
            PEOPLE | {"inputs": ["age"]},
            {"task": {"kind": "regression"}},
            "/data/target",
            "city: expected numbers; received text such as 'Bonn'",
        ),
        (OUTPUTS, two_outputs(target="ag"), "/task/outputs/earnings/target", "received ag"),
        (OUTPUTS, two_outputs(), "/data/targets/earnings", "received earnings"),
        (OUTPUTS, two_outputs(target="age"), None, None),
        (OUTPUTS | {"targets": {"earnings": ["age"]}}, two_outputs(target="pay"), None, None),
        (FILLED, {}, None, None),
        (FILLED | {"batch_size": 160, "validation_split": 0.2}, {}, None, None),
        (
            FILLED | {"inputs": ["age"], "preprocessing": {"age": {"normalize": True}}},
            {},
            None,
            None,
        ),
        (PEOPLE | {"inputs": ["age"]}, {}, None, None),
        (PEOPLE | {"inputs": ["age"], "missing": "error"}, {}, None, None),
        (
            PEOPLE
            | {"inputs": ["age"], "dtypes": {"age": "string"}}
            | {"preprocessing": {"age": {"categories": "one_hot"}}},
            {},
            None,
            None,
        ),
        (
            PEOPLE
            | {"inputs": ["age"], "dtypes": {"age": "string"}}
            | {"preprocessing": {"age": {"normalize": True}}},
            {},
            "/data/preprocessing/age",
            "preprocessing.age: expected categories or tokens, for text",
        ),
        (EYES, {}, None, None),
        (PETS, {}, None, None),
        # The data of a bundle is read before its function is called.
        (PEOPLE | {"target": "City"}, {"model": BUNDLE}, "/data/target", "received City"),
        (
            HALVES,
            {"model": BUNDLE},
            "/data/target",
            "expected classes: whole numbers, names, or one-hot rows .*received 0.5",
        ),
        (HALVES, {"model": BUNDLE, "task": {"kind": "regression"}}, None, None),
        (
            PAID | {"missing": "keep"},
            {"task": {"kind": "regression"}},
            "/data/missing_targets",
            "income: expected numbers .*, or `missing_targets: leave_out`; received nan in row",
        ),
        (
            PAID,
            {"task": {"kind": "regression"}},
            "/data/missing_targets",
            "line 2, column income: expected .*, or `missing_targets: leave_out`; received",
        ),
        (
            PAID | LEAVE_OUT,
            {"task": {"kind": "regression"}},
            None,
            None,
        ),
        (
            PEOPLE | {"inputs": ["age", "city"]},
            {"model": BUNDLE},
            "/data/inputs/features",
            "inputs.features: expected no targets; received city",
        ),
        (PEOPLE | {"inputs": ["age"]}, {"model": BUNDLE}, None, None),
    ],
)
def test_the_trainer_agrees_with_what_is_refused_or_accepted(
    tmp_path, data, parts, pointer, message
):
    """The server knows only the description of the file, the trainer reads it."""
    from ampcore.data import load
    from ampdata.description import describe
    from server.child.inspect_upload import describe_file

    spec = JobSpec.parse({"model": MODEL, "data": {"batch_size": 8} | data} | parts)
    paths = files(tmp_path)
    found = describe_file(paths[spec.data.dataset], describe)
    described = {name: found[name] for name in ("state", "kind", "rows", "columns")}
    version = DatasetVersion(**described)
    reference = f"{spec.data.dataset}@1"
    named = spec.data.model_copy(update={"dataset": reference})
    refused = [one.pointer for one in problems_of_data(spec, version, reference)]
    assert refused == ([pointer] if pointer else [])
    options = {"accumulate": spec.train.accumulate, "task": spec.task, "dataset_files": paths}
    if pointer is None:
        load(named, **options)
        return
    with pytest.raises(InvalidData, match=message):
        load(named, **options)
