"""The files of the machine that a trainer needs besides its own folder and the datasets."""

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
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
DEVICE_NAMES: Final = ("null", "zero", "full", "random", "urandom")
GPU_DEVICE_NAMES: Final = ("dxg", "kfd", "dri")
GPU_DEVICE_PATTERN: Final = "nvidia*"
PROC_FILES: Final = (
    "cpuinfo", "devices", "driver", "filesystems", "loadavg", "meminfo", "modules", "stat",
    "sys/kernel", "sys/vm", "uptime", "version",
)  # fmt: skip
"""Files of /proc about the machine; all other files there are about processes."""
PATH_VARIABLES: Final = ("LD_LIBRARY_PATH", "PYTHONPATH")
"""Environment variables with folders that trainers may read."""


def imported_files() -> list[Path]:
    """The interpreter, and every package and module that this process has imported from elsewhere.

    Packages as a whole: more of them may be imported later.
    """
    roots = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)]
    paths = dict.fromkeys(roots)
    for name, module in list(sys.modules.items()):
        if "." not in name:
            paths.update(dict.fromkeys(_module_paths(module)))
    return [path for path in paths if path in roots or not _is_below(path, roots)]


def package_folders(*names: str) -> list[Path]:
    """The folders of top-level packages, which are not imported for that."""
    specs = [find_spec(name) for name in names]
    locations = [spec.submodule_search_locations or [] for spec in specs if spec is not None]
    return [Path(folder) for folders in locations for folder in folders]


def system_files() -> list[Path]:
    """The other readable files."""
    configured = [
        part
        for name in PATH_VARIABLES
        for part in os.environ.get(name, "").split(os.pathsep)
        if part
    ]
    return [*SYSTEM_PATHS, *(Path(part).absolute() for part in configured)]


def without_processes(paths: Iterable[Path]) -> list[Path]:
    """The same files, but of /proc only those about the machine."""
    proc = Path("/proc")
    machine = [proc / name for name in PROC_FILES]
    return [entry for path in paths for entry in (machine if path == proc else [path])]


def devices() -> list[Path]:
    """Devices for reading, writing and ioctl."""
    return [*(Path("/dev") / name for name in DEVICE_NAMES), *gpu_devices()]


def gpu_devices() -> list[Path]:
    """The devices of GPUs."""
    folder = Path("/dev")
    return [*(folder / name for name in GPU_DEVICE_NAMES), *folder.glob(GPU_DEVICE_PATTERN)]


def mps_folder() -> Path:
    """The pipe folder of CUDA MPS, through which processes share a GPU."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")  # noqa: S108 - CUDA's


def _module_paths(module: object) -> Iterator[Path]:
    folders = getattr(module, "__path__", None)
    if folders is not None:
        yield from map(Path, folders)
    elif isinstance(file := getattr(module, "__file__", None), str):
        yield Path(file)


def _is_below(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)
