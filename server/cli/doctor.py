"""`ampserver doctor`: check the service from this machine, and say what mends what is wrong."""

import json
from dataclasses import asdict
from typing import Annotated, Final

import typer

from server.cli.terminal import read_settings

SIGNS: Final = {"ok": "ok      ", "warning": "WARNING ", "problem": "PROBLEM "}


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check settings, database, Redis, storage, workers and clocks; says what to do.

    With the settings of the server, on one of its machines. Exit status 0: no problem, there may be
    warnings; 1: a problem.
    """
    from ampspec.documents.text import plural
    from server.doctor.examination import examine
    from server.doctor.findings import Level

    findings = []
    for finding in examine(read_settings()):
        findings.append(finding)
        if not as_json:
            typer.echo(f"{SIGNS[finding.level]}{finding.part}: {finding.message}")
            if finding.remedy is not None:
                typer.echo(f"        {finding.remedy}")
    levels = [finding.level for finding in findings]
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        counts = [plural(levels.count(level), level) for level in (Level.PROBLEM, Level.WARNING)]
        typer.echo(" and ".join(counts) + ".")
    raise typer.Exit(Level.PROBLEM in levels)
