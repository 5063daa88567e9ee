"""Reads a dataset on this machine before it is uploaded, in a process with limited memory."""

import json
import subprocess
import sys
from pathlib import Path

import typer

from ampclient.cli.exit_status import ExitStatus


def check_file(path: Path) -> None:
    """Read all of a file or folder, and decode its pictures.

    Raises:
        Exit: Something is wrong; it has been printed.
    """
    command = [sys.executable, "-P", "-m", "ampdata", str(path), "--check"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return
    try:
        message = json.loads(finished.stdout)["error"]["message"]
    except (ValueError, KeyError):  # the process was ended, or cannot start
        lines = finished.stderr.strip().splitlines()
        message = lines[-1] if lines else f"The check ended with code {finished.returncode}."
    typer.echo(message, err=True)
    raise typer.Exit(ExitStatus.REFUSED)
