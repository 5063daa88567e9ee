"""An own folder of pictures: pushed, trained, watched, downloaded, and used, in five commands."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("stack")

PICTURES = Path(__file__).parents[2] / "examples" / "pictures"


def test_own_pictures_are_trained_and_used_with_five_commands(
    stack: Any, terminal: Any, tmp_path: Path
) -> None:
    shutil.copy(PICTURES / "job.yaml", tmp_path)

    terminal.python(PICTURES / "make_data.py")
    terminal.ampctl("dataset", "push", "shapes")
    job = terminal.ampctl("submit", "job.yaml", "--set", "train.epochs=4").strip()
    terminal.ampctl("watch", job)
    terminal.ampctl("download", job, "--output", "out")
    shown = terminal.python(PICTURES / "predict.py", "out/attempt-1")
    metrics = stack.client.jobs.get(job).metrics
    [right] = map(float, re.findall(r"\d\.\d+", shown))
    assert right == pytest.approx(metrics["val_accuracy"], abs=0.05)
    described = terminal.ampctl("dataset", "show", "shapes@1")
    assert "circle" in described
