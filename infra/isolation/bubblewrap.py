"""bubblewrap: start a program in separate namespaces, with only the files that it needs.

Source: bwrap(1).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from infra.isolation import files
from infra.isolation.confine import Confinement

HOST_NAME: Final = "sandbox"
MEMORY_FOLDERS: Final = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - the sandbox's own
"""Private folders in memory, each with a size limit."""
MEMORY_FOLDER_BYTES: Final = 256 * 2**20
KEPT_CAPABILITIES: Final = ("CAP_SETUID", "CAP_SETGID")
"""With them the trainer changes to a separate user, which drops them."""


def command(
    confinement: Confinement,
    imported: Sequence[Path],
    extra_writable: Sequence[Path],
    program: Sequence[str],
    environment: Mapping[str, str],
) -> list[str]:
    """The command that starts a program in the sandbox.

    Args:
        confinement: The rights of the trainer; `bubblewrap` is the program's path.
        imported: What `imported_files` found.
        extra_writable: Further paths that it may write.
        program: The command to execute.
        environment: All of its environment variables.
    """
    readable = [*_without_proc(files.system_files()), *imported]
    writable = [*extra_writable, confinement.folder]
    return [
        str(confinement.bubblewrap),
        *("--die-with-parent", "--unshare-net", "--unshare-pid", "--unshare-ipc"),
        *("--unshare-uts", "--unshare-cgroup-try", "--hostname", HOST_NAME),
        *_capabilities(confinement),
        *("--clearenv", *_repeated_option("--setenv", environment.items())),
        *("--proc", "/proc", "--dev", "/dev"),
        *_memory_folders(),
        *_repeated_option("--dir", _parents([*readable, confinement.datasets, *writable])),
        *_repeated_option("--ro-bind-try", _twice([*readable, confinement.datasets])),
        *_repeated_option("--dev-bind-try", _twice(files.gpu_devices())),
        *_repeated_option("--bind-try", _twice(writable)),
        *("--remount-ro", "/", "--chdir", "/"),
        *("--", *program),
    ]


def _capabilities(confinement: Confinement) -> Iterator[str]:
    yield from ("--cap-drop", "ALL")
    if confinement.user is not None:
        yield from _repeated_option("--cap-add", [[name] for name in KEPT_CAPABILITIES])


def _memory_folders() -> Iterator[str]:
    for folder in MEMORY_FOLDERS:
        yield from ("--perms", "1777", "--size", str(MEMORY_FOLDER_BYTES), "--tmpfs", str(folder))


def _without_proc(paths: Iterable[Path]) -> list[Path]:
    """Without `/proc`: the sandbox has its own."""
    return [path for path in paths if path != Path("/proc")]


def _parents(paths: Iterable[Path]) -> list[list[str]]:
    """The folders above these paths, which bubblewrap would make for root alone."""
    above = {parent for path in paths for parent in path.parents if parent != Path("/")}
    return [[str(folder)] for folder in sorted(above)]


def _twice(paths: Iterable[Path]) -> list[list[str]]:
    """Each path, at the same place inside."""
    return [[str(path), str(path)] for path in paths]


def _repeated_option(option: str, values: Iterable[Iterable[str]]) -> list[str]:
    return [word for arguments in values for word in (option, *arguments)]


def environment_inside(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a trainer in the sandbox: the fork server's, which are an allow-list."""
    variables = {
        name: value for name, value in inherited.items() if name != "CUDA_MPS_PIPE_DIRECTORY"
    }
    # What TensorFlow prints while it is imported would be the first lines of the job's log.
    return {"TF_CPP_MIN_LOG_LEVEL": "1", **variables}
