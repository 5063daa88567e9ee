"""`ampctl lab`: studies, which ask a question of several jobs."""

from typing import Annotated, Any, Literal

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.study_output import print_studies
from ampclient.cli.output.tables import print_json
from ampclient.cli.studies.search_space import parse_asha, parse_space
from ampclient.cli.studies.study_command import Wait, exit_status, print_one, study_command, waited

group = typer.Typer(
    help="Ask a question of several jobs: which policy, which layers, how large a batch, which "
    "values.",
    no_args_is_help=True,
)

PolicyNames = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Policies to study, for example mixed_bfloat16,tf32 (default: those that the "
        "workers' devices can run).",
        show_default=False,
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(help="Metric to compare, for example val_loss.", show_default=False),
]
Margin = Annotated[
    float | None,
    typer.Option(
        min=0, help="Difference that does not matter, in the metric's unit.", show_default=False
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(min=1, help="Steps of each job (default: as in the spec).", show_default=False),
]
StudyId = Annotated[str, typer.Argument(metavar="ID", help="Study id.", show_default=False)]


@group.command()
@study_command("precision")
def precision(
    *,
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds.")] = 3,
    policies: PolicyNames = None,
    steps: Steps = None,
    metric: Metric = None,
    margin: Margin = None,
) -> dict[str, Any]:
    """Find out which policy is as accurate as float32, and how much faster it is.

    Float32 and every policy train with the same seeds.
    """
    return {
        "seeds": seeds,
        "policies": _names(policies),
        "steps": steps,
        "metric": metric,
        "margin": margin,
    }


@group.command()
@study_command("capacity")
def capacity(
    *,
    policies: PolicyNames = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each job.")] = 20,
    max_batch: Annotated[
        int, typer.Option(min=8, help="Largest batch to try, a multiple of 8.")
    ] = 4096,
    resolution: Annotated[
        float,
        typer.Option(min=0, max=1, help="How close the search comes; 0: to a multiple of 8."),
    ] = 0.05,
) -> dict[str, Any]:
    """Find out how large the batch may be under each policy, and where it stops to gain speed.

    Some jobs are expected to run out of memory; that is how the limit is found.
    """
    return {
        "policies": _names(policies),
        "steps": steps,
        "max_batch": max_batch,
        "resolution": resolution,
    }


@group.command()
@study_command("bisect")
def bisect(
    *,
    policy: Annotated[
        str, typer.Option(help="The policy that overflows, or is less accurate.")
    ] = "mixed_float16",
    seeds: Annotated[int, typer.Option(min=2, help="Seeds of float32, for the noise band.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each job.")] = 200,
    metric: Metric = None,
    margin: Margin = None,
    skipped_share: Annotated[
        float, typer.Option(min=0, max=1, help="A job that skips more of its steps fails.")
    ] = 0.1,
) -> dict[str, Any]:
    """Find out which layers need float32 under a policy, and print the overrides."""
    return {
        "policy": policy,
        "seeds": seeds,
        "steps": steps,
        "metric": metric,
        "margin": margin,
        "skipped_share": skipped_share,
    }


@group.command()
@study_command("search")
def search(
    *,
    space: Annotated[
        list[str],
        typer.Option(
            metavar="PATH=VALUES",
            help="Values of a field: data.batch_size=32,64 or "
            "optimizer.learning_rate=log_uniform:1e-4,0.1; or a YAML file with the whole space. "
            "May be repeated.",
            show_default=False,
        ),
    ],
    method: Annotated[
        Literal["grid", "random", "tpe"], typer.Option(help="How values are chosen.")
    ] = "tpe",
    runs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Combinations to try (default: 20, or the grid).", show_default=False
        ),
    ] = None,
    asha: Annotated[
        str | None,
        typer.Option(
            metavar="MIN_STEPS[,FACTOR]",
            help="Stop runs early: after MIN_STEPS steps, and FACTOR (3) times as many, and so on, "
            "only the best 1/FACTOR train on.",
            show_default=False,
        ),
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, help="Most jobs at once, with tpe or asha.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    steps: Steps = None,
    metric: Metric = None,
    direction: Annotated[
        Literal["min", "max"] | None,
        typer.Option(help="Whether lower or higher values are better.", show_default=False),
    ] = None,
) -> dict[str, Any]:
    """Find the values of hyper-parameters with the best metric.

    By grid, random draws or TPE; with --asha only the best runs train to their end.
    """
    return {
        "space": parse_space(space),
        "method": method,
        "runs": runs,
        "asha": parse_asha(asha),
        "parallel": parallel,
        "seed": seed,
        "steps": steps,
        "metric": metric,
        "direction": direction,
    }


@group.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the studies, the newest first."""
    found = list(client_of(context).studies.list())
    if as_json:
        print_json([study.to_json() for study in found])
    else:
        print_studies(found)


@group.command()
def get(
    context: typer.Context,
    study_id: StudyId,
    *,
    wait: Wait = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the answer as Markdown.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a study with its jobs, and its answer once there is one."""
    client = client_of(context)
    study = waited(client, study_id) if wait else client.studies.get(study_id)
    if markdown and study.answer is not None:
        from ampspec.studies.markdown import study_markdown

        typer.echo(study_markdown(study), nl=False)
    else:
        print_one(study, as_json=as_json)
    if wait:
        raise typer.Exit(exit_status(study))


@group.command()
def cancel(context: typer.Context, study_id: StudyId, as_json: AsJson = False) -> None:
    """Cancel a study and those of its jobs that have not ended."""
    print_one(client_of(context).studies.cancel(study_id), as_json=as_json)


@group.command()
def delete(context: typer.Context, study_id: StudyId, as_json: AsJson = False) -> None:
    """Delete a study that has ended, with its answer; its jobs stay."""
    client_of(context).studies.delete(study_id)
    if as_json:
        print_json({"deleted": study_id})
    else:
        typer.echo(f"{study_id} deleted")


def _names(policies: str | None) -> list[str] | None:
    if policies is None:
        return None
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("expected names such as mixed_bfloat16", param_hint="--policies")
    return names
