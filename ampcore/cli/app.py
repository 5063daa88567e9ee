"""The command line of `python -m ampcore`, with all its commands."""

import typer

from ampcore.cli.check import check
from ampcore.cli.explain import explain
from ampcore.cli.first_step import perturb, ranges
from ampcore.cli.launch import CONTEXT, launch
from ampcore.cli.profile import profile
from ampcore.cli.run import run

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def ampcore() -> None:
    """Mixed-precision training that reports every step."""


for command in (run, check, explain, profile, ranges, perturb):
    app.command()(command)
app.command(context_settings=CONTEXT)(launch)
