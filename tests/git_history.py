"""The version before this one, in the history of the repository."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SCHEMA_BEFORE: Final = "0017"
"""The newest revision of the version before this one."""


def git(*arguments: str) -> str:
    """The output of a git command; empty if it fails, or where there is no history."""
    program = shutil.which("git")
    if program is None:
        return ""
    done = subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


@cache
def commit_with_schema(revision: str) -> str | None:
    """A commit whose newest revision this is; None where the history does not reach so far."""
    line = f'HEAD: Final = "{revision}"'
    commits = git("log", "--format=%H", f"-S{line}", "--", "server/schema.py").split()
    return next(
        (commit for commit in commits if line in git("show", f"{commit}:server/schema.py")), None
    )
