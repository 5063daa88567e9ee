"""A machine of a guide: it runs the guide's code blocks, with its own address and folder."""

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests import machines
from tests.e2e.test_doc_code_blocks import ROOT, Block
from tests.processes import children_of, has_ended, name_of
from tests.waiting import DEADLINE_S

SHELL = "bash"


@dataclass
class Machine:
    """A folder, a network, and the programs that run there."""

    folder: Path
    network: machines.Machine | None
    """None: that of this process."""
    changes: dict[str, str]
    """What is written in the guide, and what stands for it in this test."""
    settings: dict[str, str]
    """Environment variables that the guide does not set."""
    preamble: str = ""
    """The commands that come first in each terminal."""
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> str:
        """What the programs wrote, without the access log."""
        lines = self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([line for line in lines if "server.http.access" not in line][-60:])

    def here(self) -> AbstractContextManager[None]:
        """Let this thread use the network of the machine."""
        return nullcontext() if self.network is None else machines.working_on(self.network)

    def run(self, block: Block) -> str:
        """Run the commands of a block, which end by themselves; returns what they print."""
        done = subprocess.run(
            self._command(*self._shell(block)),
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, block: Block) -> psutil.Process:
        """Run the commands of a block, of which the last one is a server; returns the shell."""
        return self.start_program(*self._shell(block))

    def start_program(self, *command: str) -> psutil.Process:
        """Run a server that the guide presupposes."""
        with self._log_file.open("ab") as output:
            program = subprocess.Popen(
                self._command(*command),
                env=self._environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.programs.append(program)
        return psutil.Process(program.pid)

    def processes(self) -> list[psutil.Process]:
        """All living processes of the programs."""
        found = []
        for program in self.programs:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(program.pid)
                found += [process, *children_of(process, recursive=True)]
        return [process for process in found if not has_ended(process)]

    def stop(self) -> None:
        """End all programs, the newest first; those that do not end are killed, and an error."""
        left = self.processes()
        try:
            for program in reversed(self.programs):
                if program.poll() is None:
                    _server_of(psutil.Process(program.pid)).send_signal(signal.SIGTERM)
                    program.wait(DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{error}\n{self.log}") from None
        finally:
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            for program in self.programs:
                program.wait()

    @property
    def _log_file(self) -> Path:
        return self.folder / "output.log"

    def _shell(self, block: Block) -> list[str]:
        text = self.preamble + block.text
        for written, real in self.changes.items():
            text = text.replace(written, real)
        return [SHELL, "-euo", "pipefail", "-c", text]

    def _command(self, *command: str) -> list[str]:
        return list(command) if self.network is None else self.network.command(*command)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "AMPCORE" not in name}
        path = os.pathsep.join([f"{sys.prefix}/bin", kept["PATH"]])
        own = {"HOME": str(self.folder), "PATH": path, "PYTHONPATH": str(ROOT)}
        return {**kept, **own, **self.settings}


def _server_of(program: psutil.Process) -> psutil.Process:
    """The server that a shell runs, or that it has become."""
    is_shell = name_of(program) == SHELL
    return next(iter(children_of(program)), program) if is_shell else program
