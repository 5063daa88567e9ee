"""`ampctl job`: submit, list, watch and change jobs, and read what they recorded."""

from collections.abc import Callable
from typing import Final

import typer

from ampclient.cli.jobs import (
    actions,
    artifacts,
    bulk,
    compare,
    evaluation_report,
    evaluations,
    explain,
    explain_wait,
    export,
    jobs,
    logs,
    profile,
    ranges,
    records,
    watch,
)
from ampclient.cli.submit import submit

group = typer.Typer(
    help="Submit, list, watch and change jobs, and read what they recorded.", no_args_is_help=True
)

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    command.__name__.rstrip("_").replace("_", "-"): command
    for command in (
        submit.submit,
        submit.validate,
        jobs.list_,
        jobs.get,
        watch.watch,
        compare.compare,
        logs.logs,
        records.steps,
        evaluations.evaluations,
        evaluation_report.evaluation_report,
        ranges.ranges,
        export.export,
        records.events,
        records.attempts,
        records.allocations,
        artifacts.artifacts,
        artifacts.download,
        profile.profile,
        actions.cancel,
        actions.pause,
        actions.resume,
        actions.retry,
        actions.clone,
        actions.extend,
        explain.explain,
        explain_wait.explain_wait,
        actions.edit,
        actions.delete,
        actions.restore,
        bulk.cancel_many,
        bulk.delete_many,
    )
}
SHORT: Final = ("submit", "validate", "list", "get", "watch", "compare", "logs", "cancel")
"""The commands that `ampctl` has without `job`, too."""

for name, command in COMMANDS.items():
    group.command(name)(command)
