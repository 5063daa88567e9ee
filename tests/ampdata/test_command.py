"""`python -m ampdata`: JSON, exit codes, and the limits of the process."""

import io
import json
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ampdata.__main__ import app
from tests.ampdata.samples import noise, png_of, write_zip
from tests.waiting import DEADLINE_S


def run(*arguments):
    """The exit code and the JSON of a run in a child process."""
    command = [sys.executable, "-m", "ampdata", *map(str, arguments)]
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert finished.stdout.count("\n") == 1, finished.stderr
    return finished.returncode, json.loads(finished.stdout)


@pytest.fixture
def table(tmp_path):
    (tmp_path / "birds.csv").write_text("a;b\n1;2\n")
    return tmp_path / "birds.csv"


def test_a_description_is_one_line_of_json(table):
    code, described = run(table)
    assert code == 0
    assert (described["kind"], described["rows"]) == ("csv", 1)


def test_options_replace_what_is_recognized(table, tmp_path):
    options = json.dumps({"kind": "csv", "delimiter": ","})
    code, described = run(table, "--options", options, "--cache", tmp_path / "cache")
    assert code == 0
    assert [column["name"] for column in described["columns"]] == ["a;b"]
    assert list((tmp_path / "cache").glob("*/table.arrow"))


def test_invalid_data_is_json_with_the_place(tmp_path):
    (tmp_path / "birds.csv").write_text("a,b\n1,2\n3\n")
    code, result = run(tmp_path / "birds.csv", "--name", "upload", "--options", '{"kind":"csv"}')
    assert code == 1
    assert result["error"] == {
        "code": "invalid_data",
        "source": "upload",
        "field": "line 3",
        "expected": "2 cells, one for each column",
        "received": "1",
        "message": "upload, line 3: expected 2 cells, one for each column; received 1.",
    }


def test_a_missing_file_is_invalid_data(tmp_path):
    code, result = run(tmp_path / "secret" / "birds.csv")
    assert code == 1
    assert result["error"]["message"] == (
        "birds.csv: expected a file; received no file of this name."
    )


def test_check_decodes_all_images_of_all_splits(tmp_path):
    image = png_of(noise(9, 9))
    images = {f"{split}/{number}.png": image for split in ("train", "test") for number in "ab"}
    path = write_zip(tmp_path / "it.zip", images | {"test/a.png": image[:100]})
    assert run(path)[0] == 0
    code, result = run(path, "--check")
    assert (code, result["error"]["source"]) == (1, "it.zip/test/a.png")
    assert run(write_zip(path, images), "--check")[0] == 0


@pytest.mark.parametrize("options", ["{", '{"kind": "pickle"}', '{"kind": "csv", "x": 1}'])
def test_unknown_options_are_a_wrong_command(table, options):
    # In this process: the command fails before it limits its own.
    result = CliRunner().invoke(app, [str(table), "--options", options])
    assert result.exit_code == 2
    assert result.stderr.startswith("--options: ")


def test_memory_is_limited(tmp_path):
    # One page that decompresses to 150 MB.
    values = pa.array([b"\x89PNG" + bytes(150_000_000)])
    table = pa.table({"a": values, "b": [1]})
    # Without statistics, which take longer than compressing the page.
    options = {"use_dictionary": [], "write_statistics": False}
    pq.write_table(table, tmp_path / "bomb", compression="zstd", **options)
    assert (tmp_path / "bomb").stat().st_size < 1_000_000
    code, result = run(tmp_path / "bomb", "--memory", 256)
    assert (code, result["error"]["code"]) == (3, "memory")


def write_zeros(path, size):
    """An array of zeros in an npz file, whose compressed blocks are written again and again."""
    header, block = io.BytesIO(), bytes(2**24)
    description = {"descr": "|u1", "fortran_order": False, "shape": (size // 2**20, 2**20)}
    np.lib.format.write_array_header_1_0(header, description)
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    start = deflate.compress(header.getvalue()) + deflate.flush(zlib.Z_FULL_FLUSH)
    repeated = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
    compressed = start + repeated * (size // len(block)) + deflate.flush()
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo("x.npy")
        archive.writestr(member, compressed)
        member.compress_type, member.file_size = zipfile.ZIP_DEFLATED, header.tell() + size


def test_cpu_time_is_limited(tmp_path):
    write_zeros(tmp_path / "it.npz", 2**34)  # no processor reads 16 GiB in a second
    code, result = run(tmp_path / "it.npz", "--cpu", 1)
    assert (code, result["error"]["code"]) == (3, "cpu")


def test_the_disk_is_limited(tmp_path):
    np.savez_compressed(tmp_path / "it.npz", x=np.zeros(2**22, np.uint8))
    code, result = run(tmp_path / "it.npz", "--disk", 1)
    assert (code, result["error"]["code"]) == (3, "disk")
