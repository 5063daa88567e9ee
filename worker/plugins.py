"""What installed packages offer to the jobs of this worker; it announces that.

The worker does not import packages: they may import TensorFlow. A child process does it once, when
the worker starts; without packages there is no such process.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any, Final

from ampspec.references.package import ENTRY_POINT_GROUPS
from store.jobs.jobs import package_queue
from worker.trainer.fork_server import trainer_environment

log = logging.getLogger(__name__)

PROGRAM: Final = (sys.executable, "-P", "-m", "ampcore.plugins")
TIMEOUT_S: Final = 300.0
"""A trainer may take this long to import TensorFlow on a slow machine."""

PackageEntry = dict[str, Any]


def usable_entries(
    program: Sequence[str] = PROGRAM, timeout_s: float = TIMEOUT_S
) -> list[PackageEntry]:
    """The entries of packages that can be imported; others are logged."""
    if not any(entry_points(group=group) for group in ENTRY_POINT_GROUPS):
        return []
    try:
        done = subprocess.run(
            program,
            env=trainer_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.error("the installed packages cannot be listed; none of them is used: %s", error)
        return []
    for entry in entries:
        if "error" in entry:
            values = (entry["group"], entry["name"], entry["package"], entry["error"])
            log.error("%s: %s of %s is not usable: %s", *values)
    return [entry for entry in entries if "error" not in entry]


def queues_with_packages(queues: Sequence[str], entries: Sequence[PackageEntry]) -> tuple[str, ...]:
    """The queues, and for each package their queues of jobs that need it."""
    names = dict.fromkeys(entry["package"] for entry in entries)
    return (*queues, *(package_queue(queue, name) for name in names for queue in queues))
