"""The demo of the README runs as written."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.xdist_group("demo")


def test_the_demo_trains_three_policies_and_leaves_no_file_or_process(tmp_path: Path) -> None:
    demo = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stderr.count(": succeeded") == 3
    for word in ("float32", "mixed_bfloat16", "mixed_float16", "ampserver up"):
        assert word in demo.stdout
    assert list(tmp_path.iterdir()) == []
    left = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]
    assert left == []
