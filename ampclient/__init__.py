"""ampclient: the Python client of an ampcore server.

Importing this loads nothing heavy; each name below is loaded when first used.

    from ampclient import Client, JobSpec

    job = Client().jobs.submit(JobSpec.from_file("job.yaml"))
    job = job.wait(progress=True)
    print(job.state, job.summary.final_loss, job.steps()["loss_scale"])

`AsyncClient` has the same operations for asyncio.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from ampclient._old_names import NEW_NAMES
from ampspec.old_names import install as _install_old_names

# The names stand once, in the stub, where type checkers read them, too.
_HOMES = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as \2$",
        Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list of the names in the stub

_install_old_names(NEW_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ampclient' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
