"""A trainer that attempts actions that no job may perform, and prints the result of each.

`hostile_trainer.py TARGETS …`: the first argument is JSON with the paths, processes and addresses
to attack, the rest the fork server's. It changes nothing permanently: signal 0 has no effect.
"""

import argparse
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ampspec.telemetry.frames import Frame, FrameType, write_frame
from worker.trainer.child import fork_server

PTRACE_SEIZE = 0x4206
PTRACE_DETACH = 17
PR_GET_DUMPABLE = 3
MARK = "attacks: "

Attack = Callable[[], object]


def attacks(targets: dict[str, Any]) -> dict[str, Attack]:
    data, pids = Path(targets["data"]), targets["pids"]
    tried: dict[str, Attack] = {
        "read the token": (data / "token").read_text,
        "read the database": (data / "ampcore.sqlite").read_bytes,
        "read an artifact": (data / "artifacts/other/model").read_bytes,
        "read another trainer's folder": lambda: list(Path(targets["other"]).iterdir()),
        "write into another trainer's folder": (Path(targets["other"]) / "new").touch,
        "write into the datasets": (data / "datasets/new").touch,
        "change a dataset": lambda: (data / "datasets/x").open("ab").close(),
        "write into the package folder": lambda: write_into(Path(targets["package"])),
        "change the permissions of the token": lambda: (data / "token").chmod(0o600),
        "make a link to the token": lambda: Path("link").symlink_to(data / "token"),
        "run its own program": run_own_program,
        "connect to a port": lambda: socket.create_connection(tuple(targets["port"])).close(),
        "connect to an abstract socket": lambda: connect(targets["abstract"]),
        "use a right of root": change_owner,
        "be open to a debugger": be_traceable,
        "ask for more memory": lambda: bytearray(2 * targets["memory_bytes"]),
        "start more processes": lambda: start_many(2 * targets["processes"]),
    }
    for name, pid in pids.items():
        tried |= {
            f"signal {name}": lambda pid=pid: os.kill(pid, 0),
            f"read the environment of {name}": Path(f"/proc/{pid}/environ").read_bytes,
            f"read the memory of {name}": Path(f"/proc/{pid}/mem").open,
            f"trace {name}": lambda pid=pid: trace(pid),
        }
    worker = pids["its worker"]
    return {**tried, "change a limit of its worker": lambda: change_limit(worker)}


def allowed(job: dict[str, Any]) -> dict[str, Attack]:
    """What every trainer may do."""
    (fetched,) = Path("checkpoints").iterdir() if job["resume"] else [Path("no checkpoint")]
    resumed: dict[str, Attack] = {
        "read a checkpoint": fetched.read_text,
        "remove a checkpoint": fetched.unlink,
    }
    return (resumed if job["resume"] else {}) | {
        "read a dataset": (Path(job["data_root"]) / "x").read_bytes,
        "write a checkpoint": lambda: (Path(job["output_dir"]) / "file").write_text("x"),
        "rename a file": lambda: (Path(job["output_dir"]) / "file").rename("renamed"),
        "delete a file": lambda: Path("renamed").unlink(),
        "write a temporary file": lambda: tempfile.TemporaryFile().close(),
        "import a module": lambda: __import__("wave"),
        "look at itself": lambda: Path("/proc/self/status").read_text(),
        "write to /dev/null": lambda: Path(os.devnull).write_text("x"),
        "start a program": lambda: start("/bin/true"),
    }


def write_into(programs: Path) -> None:
    file = programs / f"hostile-{os.getpid()}.tmp"
    file.open("x").close()
    file.unlink()


def change_owner() -> None:
    Path("given").touch()
    os.chown("given", 12345, 12345)


def run_own_program() -> None:
    file = Path("program")
    file.write_text("#!/bin/sh\n")
    file.chmod(0o700)
    start("./program")


def start(program: str) -> None:
    os.waitpid(os.posix_spawn(program, [program], {}), 0)


def connect(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as here:
        here.connect(f"\0{name}")


def trace(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(PTRACE_DETACH, pid, None, None)


def be_traceable() -> None:
    """Fail unless this process allows others of its user to read or trace it."""
    if not ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0):
        raise PermissionError


def change_limit(pid: int) -> None:
    limits = resource.prlimit(pid, resource.RLIMIT_CORE)
    resource.prlimit(pid, resource.RLIMIT_CORE, limits)


def start_many(count: int) -> None:
    children: list[int] = []
    reading, writing = os.pipe()
    try:
        for _ in range(count):
            if (pid := os.fork()) == 0:
                os.close(writing)
                os.read(reading, 1)  # until all were started
                os._exit(0)
            children.append(pid)
    finally:
        os.close(writing)
        for pid in children:
            os.waitpid(pid, 0)


def leave_a_process() -> int:
    """Start an orphan in its own process group; returns its process id."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid:
            os.write(writing, str(pid).encode())
            os._exit(0)
        for descriptor in range(3, 256):
            if descriptor not in (reading, writing):
                try:
                    os.close(descriptor)
                except OSError:
                    continue
        signal.pause()
        os._exit(0)
    os.wait()
    return int(os.read(reading, 20))


def outcome(attack: Attack) -> str:
    try:
        attack()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"


def run(targets: dict[str, Any], frames_fd: int) -> int:
    frames = os.fdopen(frames_fd, "wb")
    write_frame(frames, Frame(FrameType.READY, {"hardware": {"device": "script"}, "versions": {}}))
    if line := sys.stdin.readline():
        job = json.loads(line)
        os.chdir(job["output_dir"])
        running = {"total_steps": 0, "first_step": 0}
        write_frame(frames, Frame(FrameType.RUNNING, running))
        tried = {name: outcome(attack) for name, attack in attacks(targets).items()}
        permitted = {name: outcome(attack) for name, attack in allowed(job).items()}
        orphan_pid = leave_a_process() if targets["leave"] else None
        print(
            MARK + json.dumps({"tried": tried, "permitted": permitted, "left": orphan_pid}),
            flush=True,
        )
        write_frame(frames, Frame(FrameType.SUCCEEDED, {"summary": {"steps": 0}}))
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", type=json.loads)
    parser.add_argument("--requests-fd", type=int, required=True)
    arguments = parser.parse_args()
    fork_server.serve(arguments.requests_fd, lambda frames_fd, _: run(arguments.targets, frames_fd))


if __name__ == "__main__":
    main()
