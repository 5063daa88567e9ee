"""A trainer with hostile code of a user: the job's spec names the act. Other jobs train normally.

`hostile_code.py TARGETS …`: the first argument is JSON with the paths, processes and addresses to
attack; the rest is the fork server's, or `--frames-fd` in a sandbox with exec.
"""

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from ampspec.telemetry import StepBlock
from ampspec.telemetry.frames import Frame, FrameType, write_frame
from ampspec.telemetry.steps.codec import encode
from ampspec.telemetry.steps.steps_frame import steps_frame
from worker.trainer.child import fork_server

MARK = "attacks: "
MIB = 2**20
READY = {"hardware": {"device": "script"}, "versions": {"script": "1"}}
BLOCK = StepBlock(
    0,
    {
        "loss": [0.5] * 10,
        "skipped": [False] * 10,
        "step_time_s": [0.1] * 10,
        "examples": [64] * 10,
    },
)

Attack = Callable[[], object]


class Job:
    """A job and its connection to the worker."""

    def __init__(self, frames: BinaryIO, job: dict[str, Any], targets: dict[str, Any]) -> None:
        self.frames, self.job, self.targets = frames, job, targets
        self.folder = Path(job["output_dir"])

    def write(self, kind: FrameType, **header: Any) -> None:
        write_frame(self.frames, Frame(kind, header))

    def begin(self) -> None:
        self.write(FrameType.RUNNING, total_steps=10, first_step=0)
        self.steps(BLOCK)

    def steps(self, block: StepBlock, **false: Any) -> None:
        """Report a block; `false` replaces parts of the header."""
        frame = steps_frame(block)
        write_frame(self.frames, replace(frame, header=frame.header | false))

    def succeed(self) -> None:
        self.write(FrameType.SUCCEEDED, summary={"steps": 10})


# ---- Reach something


def attacks(targets: dict[str, Any]) -> dict[str, Attack]:
    data, pids = Path(targets["data"]), targets["pids"]
    attacks_by_name: dict[str, Attack] = {
        f"read {name}": (data / name).read_bytes
        for name in ("token", "ampcore.sqlite", "connection.json", "artifacts/other/model")
    }
    attacks_by_name |= {
        "list the data folder": lambda: list(data.iterdir()),
        "list the worker's folder": lambda: list((data / "scratch" / "w0").iterdir()),
        "read another job's folder": lambda: list(Path(targets["other"]).iterdir()),
        "write into another job's folder": (Path(targets["other"]) / "new").touch,
        "write into the datasets": (data / "datasets/new").touch,
        "change a dataset": lambda: (data / "datasets/x").open("ab").close(),
        "write into the root folder": lambda: write_into(Path("/")),
        "write into the home folder": lambda: write_into(Path(targets["home"])),
        "write into /etc": lambda: write_into(Path("/etc")),
        "make a link to the token": lambda: Path("link").symlink_to(data / "token"),
        "change the permissions of the token": lambda: (data / "token").chmod(0o600),
        "find a password in an environment": find_password,
        "find the settings of the service": find_settings,
        "connect with TCP": lambda: socket.create_connection(tuple(targets["tcp"])).close(),
        "send with UDP": lambda: send(socket.AF_INET, tuple(targets["udp"])),
        "send with UDP to IPv6": lambda: send(socket.AF_INET6, ("::1", targets["udp"][1])),
        "connect to an abstract socket": lambda: connect("\0" + targets["abstract"]),
        "connect to a socket file": lambda: connect(str(data / "server.sock")),
        "send to a socket file": lambda: send_from_pair(str(data / "datagrams.sock")),
        "open a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "open a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "open a packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "run its own program": run_own_program,
        "be root": lambda: os.setuid(0),
        "make memory that outlives it": make_lasting_memory,
        "make memory that no limit counts": lambda: os.memfd_create("hostile"),
        "ask for 100 GB": lambda: bytearray(100 * 2**30),
        "enlarge the buffer of a socket": enlarge_buffer,
        "open more files": open_many,
    }
    for name in targets["programs"]:
        attacks_by_name[f"write into {name}"] = lambda name=name: write_into(Path(name))
    for name, pid in pids.items():
        attacks_by_name |= {
            f"signal {name}": lambda pid=pid: os.kill(pid, 0),
            f"read the environment of {name}": Path(f"/proc/{pid}/environ").read_bytes,
            f"read the memory of {name}": Path(f"/proc/{pid}/mem").open,
            f"read the command of {name}": Path(f"/proc/{pid}/cmdline").read_bytes,
            f"trace {name}": lambda pid=pid: call("ptrace", 0x4206, pid, None, None),
        }
    # The last one: in a namespace of its own a process has fewer rights outside of it.
    attacks_by_name["make namespaces"] = lambda: call("unshare", 0x10000000)
    return attacks_by_name


def allowed(job: Job) -> dict[str, Attack]:
    """What every job may do."""
    return {
        "read a dataset": (Path(job.job["data_root"]) / "x").read_bytes,
        "write a file": lambda: (job.folder / "file").write_text("x"),
        "rename a file": lambda: (job.folder / "file").rename(job.folder / "renamed"),
        "delete a file": (job.folder / "renamed").unlink,
        "write a temporary file": lambda: tempfile.TemporaryFile().close(),
        "import a module": lambda: __import__("wave"),
        "look at itself": Path("/proc/self/status").read_text,
        "count the processors": Path("/proc/cpuinfo").read_text,
        "start a program": lambda: subprocess.run(["/bin/true"], check=True),
        "start a thread": start_thread,
        "connect its own processes": lambda: [end.close() for end in socket.socketpair()],
        "write to /dev/null": lambda: Path(os.devnull).write_text("x"),
    }


def find_password() -> None:
    """Fail unless the environment of any process contains the service's password."""
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if b"amp_secret" in file.read_bytes():
                return
        except OSError:
            continue
    raise PermissionError


def find_settings() -> None:
    if not any(name.startswith("AMPCORE_") for name in os.environ):
        raise PermissionError


def send(family: int, address: tuple[Any, ...]) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as here:
        here.sendto(b"x", address)


def send_from_pair(path: str) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        here.sendto(b"x", path)


def connect(address: str) -> None:
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            with socket.socket(socket.AF_UNIX, kind) as here:
                here.connect(address)
                return
        except OSError:
            continue
    raise PermissionError


def enlarge_buffer() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)


def run_own_program() -> None:
    file = Path("program")
    file.write_text("#!/bin/sh\n")
    file.chmod(0o700)
    subprocess.run(["./program"], check=True)


def write_into(folder: Path) -> None:
    file = folder / f"sitecustomize-{os.getpid()}.tmp"
    file.open("x").close()
    file.unlink()


def call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def make_lasting_memory() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if (segment := libc.shmget(0, 4096, 0o1600)) < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    libc.shmctl(segment, 0, None)  # IPC_RMID


def open_many() -> None:
    here = os.open(os.devnull, os.O_RDONLY)
    copies: list[int] = []
    try:
        for _ in range(100_000):
            copies.append(os.dup(here))
    finally:
        for descriptor in (here, *copies):
            os.close(descriptor)


def start_thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def outcome(attack: Attack) -> str:
    try:
        attack()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"


def reach(job: Job) -> None:
    """Try everything. Outside of a sandbox this works, but changes nothing for long."""
    job.begin()
    os.chdir(job.folder)
    tried = {name: outcome(attack) for name, attack in attacks(job.targets).items()}
    permitted = {name: outcome(attack) for name, attack in allowed(job).items()}
    print(MARK + json.dumps({"tried": tried, "permitted": permitted}), flush=True)
    job.succeed()


# ---- Use too much


def use_memory(job: Job) -> None:
    """Use shared memory, which no limit of a single process counts."""
    job.begin()
    block = mmap.mmap(-1, 2**30)
    for at in range(0, len(block), mmap.PAGESIZE):
        block[at] = 1
    signal.pause()


def fill_sockets(job: Job) -> None:
    """Fill the buffers of as many sockets as possible, in several processes."""
    job.begin()
    for _ in range(3):
        if os.fork() == 0:
            break
    pairs = []
    with contextlib.suppress(OSError):
        while True:
            pair = socket.socketpair()
            pairs.append(pair)
            for end in pair:
                outcome(lambda end=end: end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**22))
                end.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        end.send(bytes(2**16))
    signal.pause()


def start_processes(job: Job) -> None:
    job.begin()
    while True:
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError:
            signal.pause()


def fill_the_disk(job: Job) -> None:
    job.begin()
    for number in range(256):
        try:
            (job.folder / f"file-{number}").write_bytes(os.urandom(MIB))
        except OSError:
            break
    signal.pause()


def make_sparse_files(job: Job) -> None:
    """Make files that take no blocks, but are stored and downloaded in their whole size."""
    job.begin()
    for number in range(8):
        with (job.folder / f"file-{number}").open("wb") as file:
            file.truncate(8 * MIB)
    signal.pause()


def store_checkpoints(job: Job) -> None:
    """Have the worker upload larger and larger checkpoints."""
    job.begin()
    (job.folder / "checkpoints").mkdir(exist_ok=True)
    for number in range(1, 4):
        name = f"checkpoints/checkpoint-{number:09}-step-{number}.safetensors"
        (job.folder / name).write_bytes(bytes(number * MIB))
        job.write(FrameType.EVENT, event="checkpoint_saved", step=number - 1, data={"file": name})
        while number < 3 and (job.folder / name).exists():
            time.sleep(0.01)
    job.succeed()


def fill_one_file(job: Job) -> None:
    job.begin()
    try:
        with (job.folder / "file").open("wb") as file:
            while True:
                file.write(bytes(MIB))
    except OSError as error:
        print(f"stopped: {error.strerror}", flush=True)
    job.succeed()


def make_many_files(job: Job) -> None:
    job.begin()
    for number in range(100_000):
        (job.folder / str(number)).touch()
    signal.pause()


def print_endlessly(job: Job) -> None:
    job.begin()
    line = "x" * 1023 + "\n"
    for _ in range(20 * 1024):
        sys.stdout.write(line)
    sys.stdout.flush()
    job.succeed()


def ignore_sigterm(job: Job) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job.begin()
    print("ignores SIGTERM", flush=True)
    signal.pause()


def leave_processes(job: Job) -> None:
    """Leave orphans in sessions of their own that keep a core busy and close every descriptor."""
    job.begin()
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.closerange(0, 256)
                while True:
                    pass
            os._exit(0)
        os.wait()
    job.succeed()


def kill_everything(job: Job) -> None:
    job.begin()
    for pid in job.targets["pids"].values():
        outcome(lambda pid=pid: os.kill(pid, signal.SIGKILL))
    outcome(lambda: os.kill(-1, signal.SIGKILL))  # all that it may signal, but not itself
    job.succeed()


# ---- Lie to the worker


def write_garbage(job: Job) -> None:
    """Write garbage into every open descriptor."""
    job.begin()
    for descriptor in range(256):
        outcome(lambda descriptor=descriptor: os.write(descriptor, b"\xff" * 64))
    signal.pause()


def write_nested_json(job: Job) -> None:
    job.begin()
    header = b"[" * 200_000
    job.frames.write(len(header).to_bytes(4, "big") + bytes(4) + header)
    job.frames.flush()
    signal.pause()


def send_endless_frame(job: Job) -> None:
    job.begin()
    job.frames.write((2**31).to_bytes(4, "big") + bytes(4))
    while True:
        job.frames.write(bytes(MIB))
        job.frames.flush()


def write_header_of_wrong_type(job: Job) -> None:
    job.begin()
    job.write(FrameType.EVENT, event="checkpoint_saved", step={}, data=[])
    signal.pause()


def send_false_sums(job: Job) -> None:
    """Report steps with sums and last values that are not theirs."""
    job.write(FrameType.RUNNING, total_steps=10, first_step=0)
    job.steps(BLOCK, count=10**6, stats={"skipped": -5}, last={"loss": "<b>"})
    job.succeed()


def send_arrow(job: Job) -> None:
    """Send a block in the form that servers decode."""
    job.write(FrameType.RUNNING, total_steps=10, first_step=0)
    write_frame(job.frames, Frame(FrameType.STEPS, {"first_step": 0}, encode(BLOCK)))
    signal.pause()


def send_bomb(job: Job) -> None:
    """Send a block that takes 1 GiB when it is decompressed."""
    job.write(FrameType.RUNNING, total_steps=10, first_step=0)
    packer = zlib.compressobj()
    pieces = [packer.compress(b'{"loss": ["<f4", 268435456]}\n')]
    pieces += [packer.compress(bytes(MIB)) for _ in range(1024)]
    payload = b"".join([*pieces, packer.flush()])
    write_frame(job.frames, Frame(FrameType.STEPS, {"first_step": 0}, payload))
    signal.pause()


def send_huge_numbers(job: Job) -> None:
    job.write(FrameType.RUNNING, total_steps=2**70, first_step=0)
    signal.pause()


def claim_other_job(job: Job) -> None:
    """Report steps and the end of another job."""
    job.write(FrameType.RUNNING, total_steps=10, first_step=0, job_id=job.targets["victim"])
    job.write(FrameType.FAILED, reason="invalid_data", message="x", job_id=job.targets["victim"])


def claim_success_and_fail(job: Job) -> None:
    job.begin()
    job.succeed()
    os._exit(1)


def claim_success_without_summary(job: Job) -> None:
    job.begin()
    job.write(FrameType.SUCCEEDED, summary="good")


def fail_for_unknown_reason(job: Job) -> None:
    job.begin()
    job.write(FrameType.FAILED, reason="because", message={"x": 1})


def report_strange_versions(job: Job) -> None:
    job.write(FrameType.READY, hardware=[], versions=[1])
    job.begin()
    job.succeed()


def nested(levels: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(levels):
        document = {"x": document}
    return document


def send_nested_summary(job: Job) -> None:
    """End as a job does, with a summary that cannot be written as JSON again."""
    job.begin()
    job.write(FrameType.SUCCEEDED, summary=nested(900))


def send_huge_summary(job: Job) -> None:
    """End with a number that no column of the database holds."""
    job.begin()
    job.write(FrameType.SUCCEEDED, summary={"steps": 10**30, "stopped_early": {"epoch": 1}})


def send_nested_event(job: Job) -> None:
    job.begin()
    job.write(FrameType.EVENT, event="warning", step=1, data=nested(300))
    job.succeed()


def send_overlapping_steps(job: Job) -> None:
    job.begin()
    job.steps(BLOCK, first_step=5)
    job.succeed()


def send_steps_twice(job: Job) -> None:
    job.begin()
    job.steps(BLOCK)
    job.succeed()


def claim_a_state(job: Job) -> None:
    """Write the event of a change of state, which only servers write."""
    job.begin()
    job.write(FrameType.EVENT, event="state", step=1, data={"state": "succeeded"})
    job.succeed()


def offer_the_token(job: Job) -> None:
    """Have the worker upload its token as a checkpoint."""
    job.begin()
    token = Path(job.targets["data"]) / "token"
    for number, name in enumerate((str(token), f"../../../{token.name}", "link")):
        outcome(lambda: (job.folder / "link").symlink_to(token))
        job.write(FrameType.EVENT, event="model_saved", step=number, data={"file": name})
    job.succeed()


def store_endlessly(job: Job) -> None:
    """Have the worker upload one model after the other, each after the one before is stored."""
    job.begin()
    for number in range(6):
        file = job.folder / f"model-{number}"
        file.write_bytes(bytes(MIB))
        job.write(FrameType.EVENT, event="model_saved", step=number, data={"file": file.name})
        while number < 4 and file.exists():
            time.sleep(0.01)
    job.succeed()


def train(job: Job) -> None:
    """An ordinary job."""
    job.begin()
    job.succeed()


def run(targets: dict[str, Any], frames_fd: int) -> int:
    frames = os.fdopen(frames_fd, "wb")
    write_frame(frames, Frame(FrameType.READY, READY))
    if line := sys.stdin.readline():
        fork_server.set_process_name(fork_server.TRAINER_NAME)
        job = json.loads(line)
        model = job["spec"]["model"]
        globals()[model.get("act", "train")](Job(frames, job, targets))
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", type=json.loads)
    parser.add_argument("--requests-fd", type=int)
    parser.add_argument("--frames-fd", type=int)
    options = parser.parse_args()
    if options.frames_fd is not None:
        fork_server.run_alone(
            options.frames_fd, lambda frames_fd, _: run(options.targets, frames_fd)
        )
    fork_server.serve(options.requests_fd, lambda frames_fd, _: run(options.targets, frames_fd))


if __name__ == "__main__":
    main()
