"""`ampctl dataset` against the real API."""

import json
import os
import re

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import update

from ampspec.jobs import State
from store.tables import DatasetVersion
from tests.ampclient.cli.conftest import SPEC
from tests.file_descriptions import describe_in_this_process
from tests.tables import every_row

COLUMNS = [
    {"name": "x_train", "shape": [28, 28], "dtype": "uint8"},
    {"name": "y_train", "shape": [], "dtype": "int64", "classes": ["cat", "dog"]},
]


@pytest.fixture(autouse=True)
def describe_files(monkeypatch):
    """Describe uploaded files without the server's child process."""
    describe_in_this_process(monkeypatch)


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the command line."""
    return sqlite_url


@pytest.fixture
def address(api):
    """The real API in place of the fake server."""
    return api.url


@pytest.fixture(autouse=True)
def connection(configured, api):
    configured.write_text(json.dumps({"url": api.url, "token": api.token}))


@pytest.fixture
def birds(tmp_path):
    (tmp_path / "Birds.npz").write_bytes(b"content\xff")
    return str(tmp_path / "Birds.npz")


def test_a_file_is_pushed_listed_shown_pulled_and_deleted(ampctl, birds, tmp_path):
    pushed = ampctl("dataset", "push", birds)
    assert (pushed.code, pushed.out) == (0, "birds@1\n"), pushed.err
    again = ampctl("dataset", "push", birds, "--name", "owls", "--json").json()
    assert (again["dataset"], again["number"], again["size_bytes"]) == ("owls", 1, 8)
    head, first, second = ampctl("dataset", "list").out.splitlines()
    assert head.split() == ["DATASET", "NEWEST", "VERSIONS", "KIND", "ROWS", "SIZE", "UPLOADED"]
    assert (first.split()[0], second.split()[0]) == ("birds", "owls")
    assert [item["name"] for item in ampctl("dataset", "list", "--json").json()] == [
        "birds",
        "owls",
    ]
    assert "birds@1" in ampctl("dataset", "show", "birds").out.splitlines()[1]
    [version] = ampctl("dataset", "show", "birds", "--json").json()
    assert version["number"] == 1
    pulled = ampctl("dataset", "pull", "birds", "-o", str(tmp_path / "new"))
    assert pulled.out == f"{tmp_path / 'new' / 'Birds.npz'}\n"
    assert (tmp_path / "new" / "Birds.npz").read_bytes() == b"content\xff"
    deleted = ampctl("dataset", "delete", "birds@1")
    assert (deleted.code, deleted.err) == (0, "Deleted birds@1.\n")
    ampctl("dataset", "delete", "owls")
    empty = ampctl("dataset", "list")
    assert (empty.out, empty.code) == ("", 0)
    assert "no datasets yet" in empty.err


def test_a_version_is_shown_with_columns_and_rows(api, ampctl, birds):
    rows = [{"x": 1}, {"x": "a\x1b[31m", "y": [3]}]
    ampctl("dataset", "push", birds)
    described = {"kind": "npz", "rows": 60_000, "columns": COLUMNS, "preview": {"rows": rows}}
    with api.database.write() as session:
        session.execute(update(DatasetVersion).values(state="described", **described))
    shown = ampctl("dataset", "show", "birds@1").out
    assert "rows      60,000" in shown
    assert re.search(r"x_train +uint8 +\[28, 28\]", shown)
    assert '["cat", "dog"]' in shown
    assert [line.split()[-1] for line in shown.splitlines()[-3:]] == ["y", "1", "[3]"]
    assert "\x1b" not in shown
    assert ampctl("dataset", "show", "birds@1", "--json").json()["preview"] == {"rows": rows}


def test_missing_values_are_counted_by_column(ampctl, tmp_path):
    ages = "".join(f"{row if row % 4 else ''},{row / 2}\n" for row in range(40))
    (tmp_path / "people.csv").write_text("age,size\n" + ages)
    pushed = ampctl("dataset", "push", str(tmp_path / "people.csv"))
    assert pushed.err.endswith("columns age float64, size float64; missing values age 10\n")
    for reference in ("people@1", "people"):
        shown = ampctl("dataset", "get", reference).out
        assert re.search(r"COLUMN +DTYPE +SHAPE +MISSING", shown)
        assert re.search(r"\nage +float64 +\[\] +10 ", shown)
        assert re.search(r"\nsize +float64 +\[\] +0 ", shown)
    assert "\ncolumns of people@1\n" in ampctl("dataset", "get", "people").out
    assert ampctl("dataset", "get", "people", "-o", "name").out == "people@1\n"
    np.savez(tmp_path / "nan.npz", x=np.eye(3), y=np.array([1, np.nan, 2]))
    pushed = ampctl("dataset", "push", str(tmp_path / "nan.npz"))
    assert pushed.err.endswith("missing values y 1\n")


def test_what_the_server_found_in_a_file_is_printed_after_the_name(ampctl, tmp_path):
    for name in ("cat/1.png", "dog/1.png"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "pets" / name)
    pushed = ampctl("dataset", "push", str(tmp_path / "pets"))
    assert pushed.out == "pets@1\n"
    description = "images, 2 rows; columns image image, label int32; label is cat, dog\n"
    assert pushed.err.endswith(description)
    (tmp_path / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    pushed = ampctl("dataset", "push", str(tmp_path / "damaged.png"))
    assert pushed.out == "damaged@1\n"
    assert pushed.err.startswith("damaged.png: expected an npz, npy, csv,")


def test_a_job_is_proposed_for_a_dataset_and_accepted(ampctl, tmp_path):
    rows = "".join(f"{row},{row * 7 % 5}.5,{['no', 'yes'][row % 2]}\n" for row in range(200))
    (tmp_path / "answers.csv").write_text("id,hours worked,answer\n" + rows)
    ampctl("dataset", "push", str(tmp_path / "answers.csv"))
    proposed = ampctl("dataset", "spec", "answers")
    assert proposed.out.startswith("# data.target: answer is the last column")
    assert "# data.inputs: without id: row numbers.\n" in proposed.out
    (tmp_path / "job.yaml").write_text(proposed.out)
    job = ampctl("submit", str(tmp_path / "job.yaml"), "--json").json()
    assert job["spec"]["data"]["inputs"] == {"hours worked": ["hours worked"]}
    refused = ampctl("dataset", "spec", "birds")
    assert refused.code != 0


def test_a_folder_is_pushed_as_an_archive(ampctl, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.png").write_bytes(os.urandom(100))
    pushed = ampctl("dataset", "push", str(tmp_path / "photos"), "--json").json()
    assert (pushed["dataset"], pushed["file_name"]) == ("photos", "photos.zip")


def test_a_folder_of_tables_is_described_as_the_folder_is_read(ampctl, tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "clicks").mkdir()
    for name in ("train", "test"):
        (tmp_path / "blobs" / name).write_text("x,y\n1,2\n3,4\n")
        (tmp_path / "clicks" / f"{name}.csv").symlink_to(tmp_path / "blobs" / name)
    pushed = ampctl("dataset", "push", str(tmp_path / "clicks"))
    assert pushed.out == "clicks@1\n"
    assert "2 links followed: the files are uploaded." in pushed.err
    assert "csv, 4 rows; columns x int64, y int64" in pushed.err


def test_check_reads_a_dataset_before_it_is_uploaded(ampctl, tmp_path):
    (tmp_path / "clicks.csv").write_text("x,y\n1,2\n3\n")
    pushed = ampctl("dataset", "push", str(tmp_path / "clicks.csv"), "--check")
    assert (pushed.code, pushed.out) == (3, "")
    assert "clicks.csv, line 3: expected 2 cells" in pushed.err
    assert ampctl("dataset", "list").out == ""
    (tmp_path / "clicks.csv").write_text("x,y\n1,2\n3,4\n")
    assert ampctl("dataset", "push", str(tmp_path / "clicks.csv"), "--check").code == 0


def test_a_job_is_submitted_with_a_dataset_and_keeps_it(ampctl, birds, tmp_path):
    np.savez(birds, x=np.zeros((200, 8, 8)), y=np.arange(200) % 2)
    ampctl("dataset", "push", birds)
    spec = SPEC.replace("{kind: digits}", "{kind: npz, dataset: birds}")
    (tmp_path / "job.yaml").write_text(spec)
    job = ampctl("submit", str(tmp_path / "job.yaml"), "--json").json()
    assert job["spec"]["data"]["dataset"] == "birds@1"
    refused = ampctl("dataset", "delete", "birds")
    assert refused.code == 3
    assert "the job 'digits-fp16'" in refused.err


def test_the_job_that_uses_a_version_is_named(ampctl, birds, make_job):
    ampctl("dataset", "push", birds)
    make_job(State.PAUSED, name="my job", data={"kind": "npz", "dataset": "birds@1"})
    assert "'my job'" in ampctl("dataset", "delete", "birds@1").err


@every_row(
    "arguments",
    [
        ["show", "Birds"],
        ["show", "birds@x"],
        ["pull", "@1"],
        ["delete", "birds@0"],
        ["push", "/nowhere"],
        ["push", ".", "--name", "Birds"],
    ],
)
def test_malformed_names_and_missing_files_are_wrong_usage(ampctl, arguments):
    assert ampctl("dataset", *arguments).code == 2


def test_an_unknown_dataset_is_an_error(ampctl):
    for command in ("show", "pull", "delete"):
        result = ampctl("dataset", command, "birds")
        assert result.code == 4
        assert "There is no dataset 'birds'" in result.err
