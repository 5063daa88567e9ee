"""`python -m ampcore launch`: train a job on several ranks of this machine."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from ampcore.cli.exits import BAD_SPEC, exit_with
from ampcore.distributed.cluster import DEFAULT_TIMEOUT_S, MAX_RANKS
from ampcore.distributed.launcher import Launch, launch_ranks
from ampcore.distributed.launchers.placement import RANKS, find_placement, is_alone

PROGRAM_SUFFIX: Final = ".py"
CONTEXT: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
"""What follows FILE belongs to the job or the program."""


def launch(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE [ARGUMENTS]...",
            help="Job spec in YAML or JSON (- reads standard input), followed by options of `run`; "
            "or a Python program (.py), followed by its own arguments.",
        ),
    ],
    *,
    processes: Annotated[
        int,
        typer.Option("--processes", "-n", min=1, max=MAX_RANKS, help="The number of ranks."),
    ],
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads of each rank; default: its share of the cores."),
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=1,
            help="Seconds that the ranks of a program wait for one that does not answer; of a job: "
            "runtime.exchange.timeout_s.",
        ),
    ] = DEFAULT_TIMEOUT_S,
) -> None:
    """Train the job in FILE on several ranks of this machine, or run a program on each of them."""
    _check_started_once()
    if file.endswith(PROGRAM_SUFFIX):
        command = [sys.executable, file, *context.args]
        raise typer.Exit(launch_ranks(Launch(command, processes, timeout_s, threads)))
    with tempfile.TemporaryDirectory(prefix="ampcore-launch-") as folder:
        if file == "-":  # each rank reads it
            copy = Path(folder) / "job.yaml"
            copy.write_bytes(sys.stdin.buffer.read())
            file = str(copy)
        command = [sys.executable, "-P", "-m", "ampcore", "run", file, *context.args]
        code = launch_ranks(Launch(command, processes, timeout_s, threads))
    raise typer.Exit(code)


def _check_started_once() -> None:
    """End the command under mpiexec, srun and the like: each copy would train the job again."""
    try:
        placement = None if is_alone(os.environ) else find_placement(os.environ)
    except ValueError as error:
        exit_with(str(error), BAD_SPEC)
    if placement is not None:
        exit_with(
            f"{placement.launcher} has started this command {placement.size} times "
            f"({placement.size_variable}={placement.size}), and each would start ranks of its own. "
            "Start `python -m ampcore run FILE` or the program with it instead: its ranks find "
            f"each other. Set {RANKS}=1 if each copy is meant to train alone.",
            BAD_SPEC,
        )
