"""Folders with installed packages, for PYTHONPATH: the example, and one that cannot be imported."""

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "custom-package"


def install_example(folder: Path) -> Path:
    """Install the example into a folder of its own, offline; returns that folder."""
    source, target = folder / "source", folder / "site"
    shutil.copytree(EXAMPLE, source)  # building writes into the source folder
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, source], check=True)
    return target


def write_broken(
    folder: Path,
    *,
    code: str = "import a_module_that_is_missing",
    group: str = "ampcore.models",
) -> None:
    """Write a package whose module is `code`, as if it was installed in this folder.

    Its only entry point, in this group, is `any`: the module's attribute `entry`.
    """
    info = folder / "broken_one-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Broken_One\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nany = broken_one:entry\n")
    (folder / "broken_one.py").write_text(code)
