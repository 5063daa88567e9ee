"""An own folder of pictures: pushed, trained, watched, downloaded, and used, in five commands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack")

AMPCTL = Path(sys.executable).with_name("ampctl")
PICTURES = Path(__file__).parents[2] / "examples" / "pictures"


def test_own_pictures_are_trained_and_used_with_five_commands(stack: Any, tmp_path: Path) -> None:
    shutil.copy(PICTURES / "job.yaml", tmp_path)

    def run(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments],
            cwd=tmp_path,
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ampctl(*command: str) -> str:
        return run(str(AMPCTL), "--connection", connection, *command)

    connection = str(stack.data / "connection.json")
    run(sys.executable, str(PICTURES / "make_data.py"))
    ampctl("dataset", "push", "shapes")
    job = ampctl("submit", "job.yaml", "--set", "train.epochs=4").strip()
    ampctl("watch", job)
    ampctl("download", job, "--output", "out")
    shown = run(sys.executable, str(PICTURES / "predict.py"), "out/attempt-1")
    metrics = stack.client.jobs.get(job).metrics
    [right] = map(float, re.findall(r"\d\.\d+", shown))
    assert right == pytest.approx(metrics["val_accuracy"], abs=0.05)
    described = ampctl("dataset", "show", "shapes@1")
    assert "circle" in described
