"""Files as public data sets have them: pushed, described, trained by the proposed job, and used."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from ampclient import AmpcoreError
from ampdata import open_source
from ampspec.jobs import JobSpec
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack")

ROOT = Path(__file__).parents[2]
MAKE_FILES = ROOT / "examples" / "public-files" / "make_files.py"
TWO_EPOCHS = {"epochs": 2}
PAGE = ROOT / "docs" / "guides" / "public-files.md"


def makers() -> dict[str, Callable[[Path], Path]]:
    specification = importlib.util.spec_from_file_location("make_files", MAKE_FILES)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return dict(module.MAKERS)


def raw_inputs(model: Any, path: Path, spec: JobSpec, cache: Path) -> Any:
    """The first rows of the file as the model takes them: values as they are in it, by column."""
    if path.is_dir():  # files behind links that lead out of a folder are read from a copy
        path = shutil.copytree(path, cache.with_name("copy") / path.name)
    columns = [column for group in (spec.data.inputs or {}).values() for column in group]
    with open_source(path, spec.data, cache=cache, columns=columns) as source:
        rows = source.read(np.arange(min(16, source.rows)), columns)
    values = {name: column_values(column) for name, column in rows.items()}
    return values if len(values) > 1 else next(iter(values.values()))


def column_values(values: Any) -> Any:
    import tensorflow as tf

    if values.dtype == object:
        return tf.constant([text or "" for text in values], tf.string)[:, None]
    return tf.constant(values[:, None] if values.ndim == 1 else values)


def test_a_public_file_is_pushed_described_and_trained_with_commands(
    stack: Any, terminal: Any, tmp_path: Path
) -> None:
    path = makers()["wine"](tmp_path)
    terminal.ampctl("dataset", "push", str(path), "--name", "wine-by-commands")
    (tmp_path / "job.yaml").write_text(terminal.ampctl("dataset", "spec", "wine-by-commands"))
    job_id = terminal.ampctl("submit", str(tmp_path / "job.yaml"), "--set", "train.epochs=1")
    assert stack.client.jobs.get(job_id.strip()).wait(DEADLINE_S).state == "succeeded"
    terminal.ampctl("download", job_id.strip(), "--output", str(tmp_path / "out"))
    assert list((tmp_path / "out").glob("*/model.keras"))


def test_each_public_file_is_pushed_described_trained_and_used(stack: Any, tmp_path: Path) -> None:
    jobs, problems = {}, []
    for name, make in makers().items():
        folder = tmp_path / name
        folder.mkdir()
        path = make(folder)
        try:
            version = stack.client.datasets.upload(path, name=name)
        except AmpcoreError as error:
            problems.append(f"{name}: {error}")
            continue
        if version.state != "described":
            problems.append(f"{name}: {version.state}: {version.message}")
            continue
        spec = stack.client.datasets.propose(name).spec
        jobs[name] = (path, stack.client.jobs.submit({**spec, "train": TWO_EPOCHS}))
    for name, (path, job) in jobs.items():
        done = job.wait(DEADLINE_S)
        if done.state != "succeeded":
            problems.append(f"{name}: {done.state}: {done.message}")
            continue
        out = tmp_path / name / "out"
        done.download(to=out)
        model = keras.saving.load_model(next(out.glob("*/model.keras")))
        signature = json.loads(next(out.glob("*/signature.json")).read_text())
        spec = JobSpec.parse(done.spec)
        predictions = np.asarray(model(raw_inputs(model, path, spec, tmp_path / name / "cache")))
        if not np.isfinite(predictions).all():
            problems.append(f"{name}: predictions that are not finite")
        if not signature["targets"]:
            problems.append(f"{name}: a signature without targets")
    assert not problems, "\n".join(problems)


def test_damaged_pictures_are_named_all_at_once(stack: Any, tmp_path: Path) -> None:
    top = makers()["cats-and-dogs"](tmp_path)
    (top / "Cat" / "666.jpg").write_bytes(b"")
    (top / "Dog" / "11702.jpg").write_bytes(b"<html>not found</html>")
    version = stack.client.datasets.upload(top, name="damaged-pets")
    assert version.state == "invalid"
    assert "Cat/666.jpg" in version.message
    assert "Dog/11702.jpg" in version.message


def test_the_page_has_a_row_for_each_file() -> None:
    rows = PAGE.read_text()
    assert not [name for name in makers() if f"make_files.py {name}`" not in rows]
