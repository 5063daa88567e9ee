"""The files of the machine that a trainer needs besides its own folder and the datasets."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SYSTEM_PATHS: Final = tuple(
    map(
        Path,
        (
            "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/proc", "/sys",
            "/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
            "/etc/hosts", "/etc/nvidia-container-runtime",
        ),
    )
)  # fmt: skip
"""Programs, libraries and kernel files; no user files."""
DEVICE_NAMES: Final = ("null", "zero", "full", "random", "urandom", "dxg", "kfd", "dri")
GPU_DEVICE_PATTERN: Final = "nvidia*"
PATH_VARIABLES: Final = ("LD_LIBRARY_PATH", "PYTHONPATH")
"""Environment variables with folders that trainers may read."""


def imported_files() -> list[Path]:
    """The interpreter, and every package and module that this process has imported from elsewhere.

    Packages as a whole: more of them may be imported later.
    """
    roots = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)]
    found = dict.fromkeys(roots)
    for name, module in list(sys.modules.items()):
        if "." not in name:
            found.update(dict.fromkeys(_module_paths(module)))
    return [path for path in found if path in roots or not _is_below(path, roots)]


def system_files() -> list[Path]:
    """The other readable files."""
    configured = [
        part
        for name in PATH_VARIABLES
        for part in os.environ.get(name, "").split(os.pathsep)
        if part
    ]
    return [*SYSTEM_PATHS, *map(Path, configured)]


def devices() -> list[Path]:
    """Devices for reading, writing and ioctl, and the pipe folder of CUDA MPS."""
    folder = Path("/dev")
    shared = os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"  # noqa: S108 - CUDA's
    return [
        *(folder / name for name in DEVICE_NAMES),
        *folder.glob(GPU_DEVICE_PATTERN),
        Path(shared),
    ]


def _module_paths(module: object) -> Iterator[Path]:
    folders = getattr(module, "__path__", None)
    if folders is not None:
        yield from map(Path, folders)
    elif isinstance(file := getattr(module, "__file__", None), str):
        yield Path(file)


def _is_below(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)
