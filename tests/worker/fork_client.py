"""A minimal supervisor of a fork server, which only implements their protocol."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ampcore.distributed import Cluster
from ampspec.telemetry.frames import Frame, FrameReader, FrameType
from infra.isolation import Confinement
from worker.trainer.child.fork_server import JOB, REAP, STANDBY


class Child:
    """A trainer process as its supervisor sees it."""

    def __init__(
        self, status: socket.socket, stdin: int, frames: int, log_file: Path, server: int
    ) -> None:
        self.status, self.log_file, self.server = status, log_file, server
        self._stdin, self._frames_fd = os.fdopen(stdin, "wb", buffering=0), frames
        self._frames, self._waiting = FrameReader(), list[Frame]()
        self._received, self._lines = b"", list[dict[str, Any]]()
        reply = self._line()
        self.pid: int | None = reply.get("pid")
        self.error: str | None = reply.get("error")

    def receive(self, name: str) -> Any:
        """The value of the server's next message, which must have this name."""
        return self._line()[name]

    def _line(self) -> dict[str, Any]:
        """The next message of the server; empty if the socket is closed."""
        while not self._lines:
            if not (data := self.status.recv(4096)):
                return {}
            *lines, self._received = (self._received + data).split(b"\n")
            self._lines += map(json.loads, lines)
        return self._lines.pop(0)

    def frames(self) -> Iterator[Frame]:
        """Frames as they come, until the process has closed its end."""
        while self._waiting or (data := os.read(self._frames_fd, 65_536)):
            if not self._waiting:
                self._waiting += self._frames.feed(data)
            while self._waiting:
                yield self._waiting.pop(0)

    def next(self, kind: FrameType) -> Frame:
        """Read up to the next frame of a kind."""
        return next(frame for frame in self.frames() if frame.type is kind)

    def request_profile(self, steps: int) -> None:
        """Ask a trainer that has its job for a profile."""
        self._stdin.write(json.dumps({"profile": {"steps": steps}}).encode() + b"\n")

    def send(
        self,
        spec: Any,
        output_dir: Path,
        data_root: str | None = None,
        *,
        resume: bool = False,
        cluster: Cluster | None = None,
        own_ranks: tuple[int, int] | None = None,
    ) -> None:
        job = {
            "job_id": "j",
            "attempt": 1,
            "spec": spec.to_json(),
            "data_root": data_root,
            "output_dir": str(output_dir),
            "resume": resume,
            "cluster": cluster and cluster.to_json(),
            "own_ranks": own_ranks,
        }
        self._stdin.write(json.dumps(job).encode() + b"\n")

    def close_input(self) -> None:
        self._stdin.close()

    def exit_code(self) -> int:
        return int(self.receive("exit"))

    def reap(self) -> int:
        """Have the server reap the process; returns its peak memory in bytes."""
        self.status.sendall(REAP)
        return int(self.receive("peak_bytes"))

    def close(self) -> None:
        self.status.close()
        self.close_input()
        os.close(self._frames_fd)


class Server:
    """A fork server and the trainers that it was asked to fork."""

    def __init__(self, program: Sequence[str], folder: Path) -> None:
        self.folder, self.children = folder, list[Child]()
        self.requests, peer = socket.socketpair()
        self.process = subprocess.Popen(
            [*program, "--requests-fd", str(peer.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[peer.fileno()],
            start_new_session=True,
        )
        peer.close()

    def fork(self, *, is_standby: bool = False, confinement: Confinement | None = None) -> Child:
        log_file = self.folder / f"log-{len(self.children)}"
        stdin, writing = os.pipe()
        reading, frames = os.pipe()
        ours, peer = socket.socketpair()
        with log_file.open("wb") as log:
            ours.sendall(json.dumps(confinement and confinement.to_json()).encode() + b"\n")
            descriptors = [stdin, log.fileno(), log.fileno(), frames, peer.fileno()]
            socket.send_fds(self.requests, [STANDBY if is_standby else JOB], descriptors)
        for descriptor in (stdin, frames):
            os.close(descriptor)
        peer.close()
        self.children.append(Child(ours, writing, reading, log_file, self.process.pid))
        return self.children[-1]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.requests.close()
        for child in self.children:
            child.close()


TRAINER_COMMAND = (sys.executable, "-u", "-m", "worker.trainer.child.trainer_process")
