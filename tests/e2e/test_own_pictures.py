"""An own folder of pictures: pushed, trained, watched, downloaded, and used, in five commands."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

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
    with Image.open(next(tmp_path.glob("shapes/validation/circle/*.png"))) as picture:
        picture.convert("RGB").resize((75, 50)).save(tmp_path / "new.jpg")
    named = terminal.python(PICTURES / "predict.py", "out/attempt-1", "new.jpg")
    assert re.fullmatch(r"new\.jpg (circle|square|triangle)", named.strip())
    described = terminal.ampctl("dataset", "show", "shapes@1")
    assert "circle" in described
