"""The command line of `python -m ampcore`, with all its commands."""

import typer

from ampcore.commands.check import check
from ampcore.commands.explain import explain
from ampcore.commands.first_step import perturb, ranges
from ampcore.commands.launch import CONTEXT, launch
from ampcore.commands.profile import profile
from ampcore.commands.run import run

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def ampcore() -> None:
    """Mixed-precision training that reports every step."""


for command in (run, check, explain, profile, ranges, perturb):
    app.command()(command)
app.command(context_settings=CONTEXT)(launch)
