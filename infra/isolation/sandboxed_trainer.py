"""A trainer in a bubblewrap sandbox: started with exec instead of by a fork, it confines itself.

The process that the fork server has forked executes bubblewrap, and that `python -m
infra.isolation.sandboxed_trainer JSON`. The JSON contains what a forked trainer inherits. It
confines itself, and only then runs the fork server's own program with `--frames-fd N` in place of
`--requests-fd N`: libraries start threads when they are imported, and a process with threads cannot
be confined. Without a program it exits: so a worker checks what its machine allows.

Standard library only.
"""

import json
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from infra.isolation import Confinement, bubblewrap, confine

MODULE: Final = "infra.isolation.sandboxed_trainer"
REQUESTS_OPTION: Final = "--requests-fd"
FRAMES_OPTION: Final = "--frames-fd"


@dataclass(frozen=True)
class SandboxedTrainer:
    """The start-up data of a trainer that starts with exec."""

    confinement: Confinement
    imported: tuple[Path, ...]
    """The result of `imported_files` in the fork server."""
    extra_writable: tuple[Path, ...] = ()
    program: tuple[str, ...] = ()
    """The program: `-m` and a module, or a script; and the arguments."""

    def to_argument(self) -> str:
        """The argument of the module."""
        values = {
            "confinement": self.confinement.to_json(),
            "imported": [str(path) for path in self.imported],
            "extra_writable": [str(path) for path in self.extra_writable],
            "program": self.program,
        }
        return json.dumps(values)

    @classmethod
    def from_argument(cls, text: str) -> "SandboxedTrainer":
        """What `to_argument` wrote."""
        values: dict[str, Any] = json.loads(text)
        return cls(
            Confinement.from_json(values["confinement"]),
            tuple(map(Path, values["imported"])),
            tuple(map(Path, values["extra_writable"])),
            tuple(values["program"]),
        )

    def command(self) -> list[str]:
        """The command that starts it; without bubblewrap in its confinement, outside of one."""
        inner = [sys.executable, "-P", "-u", "-m", MODULE, self.to_argument()]
        if self.confinement.bubblewrap is None:
            return inner
        return bubblewrap.command(
            self.confinement,
            self.imported,
            self.extra_writable,
            inner,
            bubblewrap.environment_inside(),
        )

    def run(self) -> None:
        """Confine this process and run the program in it. Raises OSError."""
        confine(self.confinement, self.imported, self.extra_writable)
        match self.program:
            case ("-m", module, *arguments):
                sys.argv[1:] = arguments
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            case (script, *arguments):
                sys.argv = [script, *arguments]
                sys.path.insert(0, str(Path(script).parent))
                runpy.run_path(script, run_name="__main__")


def replace_process(
    confinement: Confinement,
    imported: Sequence[Path],
    extra_writable: Sequence[Path],
    frames_fd: int,
) -> NoReturn:
    """Replace this process, a fork of the fork server, by the sandboxed trainer."""
    os.set_inheritable(frames_fd, True)
    # bubblewrap has no handler: a request to stop is for the trainer.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = (*_program(sys.orig_argv), FRAMES_OPTION, str(frames_fd))
    trainer = SandboxedTrainer(confinement, tuple(imported), tuple(extra_writable), program)
    command = trainer.command()
    os.execv(command[0], command)  # noqa: S606 - no shell: the arguments are a list


def _program(command: Sequence[str]) -> list[str]:
    """The program of a fork server's command, without its connection and interpreter options."""
    words = list(command[1:])
    while words[0].startswith("-") and words[0] != "-m":
        words.pop(0)
    index = words.index(REQUESTS_OPTION)
    return words[:index] + words[index + 2 :]


if __name__ == "__main__":
    SandboxedTrainer.from_argument(sys.argv[1]).run()
