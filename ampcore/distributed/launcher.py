"""Starts the ranks of a job on this machine, and ends all of them when one fails.

It needs no TensorFlow. A rank dies with the launcher, on Linux even if that is killed, and the
processes that a rank has started die with the rank.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Any, Final, TextIO

from ampcore.distributed import environment
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.cores import cores_of_rank
from ampcore.distributed.environment import ADDRESS_IN_USE
from infra.isolation.process_group_tracker import ProcessGroupTracker
from infra.parent_death import die_with_parent

MAX_STARTS: Final = 3
"""How often the ranks are started: another process may take a port before its rank does."""
GRACE_S: Final = 5.0
"""How long the other ranks may take to end by themselves after one has failed."""
TERMINATION_S: Final = 3.0
"""How long a rank may take to end after SIGTERM."""
POLL_S: Final = 0.05
TAIL_LINES: Final = 40
"""How many lines of a failed rank's output are shown."""
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Launch:
    """What to start.

    Args:
        command: The program of every rank.
        processes: The number of ranks.
        timeout_s: That of the cluster.
        threads: The threads of each rank on a CPU; None: its share of the cores.
        environ: Further variables of the ranks.
    """

    command: Sequence[str]
    processes: int
    timeout_s: float
    threads: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict)


def launch_ranks(job: Launch, stderr: TextIO = sys.stderr) -> int:
    """Run all ranks; returns 0, or the exit code of the first one that failed.

    Standard output and error of rank 0 are those of this process. What the others print is shown
    only if they fail first.
    """
    for _ in range(MAX_STARTS):
        with ExitStack() as stack:
            code = _Ranks(job, stack, stderr).run()
        if code != ADDRESS_IN_USE:
            return code
    return code


def free_addresses(count: int) -> tuple[str, ...]:
    """Addresses of this machine that nothing listens on at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((LOOPBACK, 0))
        return tuple(f"{LOOPBACK}:{listener.getsockname()[1]}" for listener in sockets)


class _Rank:
    """A started rank with its process group, and the file with its output unless it is rank 0."""

    def __init__(
        self,
        number: int,
        process: "subprocess.Popen[bytes]",
        output: Any,
        tracker: ProcessGroupTracker,
    ) -> None:
        self.number, self._process, self._output = number, process, output
        self._tracker = tracker
        self.code: int | None = None
        tracker.register(process.pid)

    def poll(self) -> int | None:
        """Its exit code, as of a shell; None while it runs. What it leaves behind is killed."""
        if self.code is None and (code := self._process.poll()) is not None:
            self._signal_group(signal.SIGKILL)
            self._tracker.unregister(self._process.pid)
            self.code = code if code >= 0 else 128 - code
        return self.code

    def signal(self, number: int) -> None:
        """Signal the rank and the processes that it has started, unless it has ended."""
        if self.code is None:
            self._signal_group(number)

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def tail(self) -> list[str]:
        """The last lines of its output; none of rank 0, which were shown already."""
        if self._output is None:
            return []
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").splitlines()
        return [f"rank {self.number}: {line}" for line in lines[-TAIL_LINES:]]


class _Ranks:
    def __init__(self, job: Launch, stack: ExitStack, stderr: TextIO) -> None:
        self._job, self._stderr = job, stderr
        self._interrupts = 0
        cores = sorted(os.sched_getaffinity(0))
        addresses = free_addresses(job.processes)
        tracker = ProcessGroupTracker()
        stack.callback(tracker.close)
        stack.callback(self._kill)
        self._ranks: list[_Rank] = []
        for number in range(job.processes):
            cluster = Cluster(addresses, number, number, job.timeout_s)
            rank_cores = cores_of_rank(number, job.processes, cores)
            output = None
            if number > 0:
                output = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - it is one
            process = self._start(cluster, rank_cores, output)
            self._ranks.append(_Rank(number, process, output, tracker))

    def run(self) -> int:
        """Wait for all ranks; ends them when one fails or this process is asked to end."""
        previous_handlers = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            first = self._wait_for_failure()
            if first is None:
                return 0
            self._end_others()
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
        self._show(first)
        return first.code or 1

    def _start(
        self, cluster: Cluster, cores: Sequence[int], output: IO[bytes] | None
    ) -> "subprocess.Popen[bytes]":
        job = self._job
        parent = os.getpid()

        def prepare() -> None:
            die_with_parent()
            if os.getppid() != parent:  # it ended before
                os._exit(1)
            os.sched_setaffinity(0, cores)

        rank_environ = environment.of_rank(cluster, job.threads or len(cores))
        return subprocess.Popen(
            list(job.command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **rank_environ, **job.environ},
            start_new_session=True,  # a signal to its group reaches what it has started
            preexec_fn=prepare,  # noqa: PLW1509 - this process has no other threads
        )

    def _wait_for_failure(self) -> _Rank | None:
        """The first rank that fails; None when all have ended well."""
        while True:
            codes = [rank.poll() for rank in self._ranks]
            failed = [rank for rank, code in zip(self._ranks, codes, strict=True) if code]
            if failed:
                return failed[0]
            if all(code == 0 for code in codes):
                return None
            time.sleep(POLL_S)

    def _end_others(self) -> None:
        """Wait until the other ranks have noticed; then end them."""
        self._wait(GRACE_S)
        for rank in self._ranks:
            if rank.poll() is None:
                rank.signal(signal.SIGTERM)
        self._wait(TERMINATION_S)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(rank.poll() is None for rank in self._ranks):
            time.sleep(POLL_S)

    def _show(self, first: _Rank) -> None:
        if first.code != ADDRESS_IN_USE:
            for line in first.tail():
                self._stderr.write(f"{line}\n")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """The first signal lets the ranks save their state; the second one kills them."""
        self._interrupts += 1
        for rank in self._ranks:
            rank.signal(number if self._interrupts == 1 else signal.SIGKILL)

    def _kill(self) -> None:
        for rank in self._ranks:
            rank.signal(signal.SIGKILL)
            rank.poll()
