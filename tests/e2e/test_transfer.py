"""A job starts from the weights of another one, over a server; its model is used with Keras."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("stack")

TRANSFER = Path(__file__).parents[2] / "examples" / "transfer"
SHORT = ("--set", "train.epochs=4", "--set", "train.eval_every_epochs=4")


def test_a_job_starts_from_the_weights_of_another_one(
    stack: Any, terminal: Any, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        shutil.copy(TRANSFER / f"{name}.yaml", tmp_path)

    def submit(name: str, data: str, *options: str) -> str:
        """The id of the job of an example, once it has succeeded."""
        dataset = ["--set", f"data.dataset={data}", "--set", 'data.path=""']
        job = terminal.ampctl("submit", f"{name}.yaml", *dataset, *options).strip()
        terminal.ampctl("watch", job)
        return job

    terminal.python(TRANSFER / "make_data.py")
    for data in ("names", "loops"):
        terminal.ampctl("dataset", "push", f"{data}.npz", "--name", data)
    first = submit("first", "names", "--set", "train.epochs=1")
    second = submit("second", "loops", "--set", f'init.job="{first}"', *SHORT)
    assert f"8 of 8 weights start from job {first}" in terminal.ampctl("get", second)
    loaded = stack.client.jobs.get(second).loaded_weights()
    assert set(loaded.unused_in_source) == {"names/kernel", "names/bias"}
    terminal.ampctl("download", second, "--output", "out")
    predicted = terminal.python(TRANSFER / "predict.py", "out/attempt-1")
    [right] = map(float, re.findall(r"\d\.\d+", predicted))
    metrics = stack.client.jobs.get(second).metrics
    assert right == pytest.approx(metrics["val_accuracy"], abs=0.05)
    # The file that a job stores is one that a client can send.
    sent = submit("second", "loops", "--weights", "out/attempt-1/weights.safetensors", *SHORT)
    loaded = stack.client.jobs.get(sent).loaded_weights()
    assert (loaded.matched, set(loaded.unused_in_source)) == (8, {"loops/kernel", "loops/bias"})
