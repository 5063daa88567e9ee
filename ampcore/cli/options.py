"""The arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

SpecFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Job spec in YAML or JSON; - reads standard input.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set one field: precision.policy=float32"),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Root folder of the data paths in the spec; no path may leave it."),
]
DatasetFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset", metavar="NAME=FILE", help="The local file of a dataset that the spec names."
    ),
]
InitFile = Annotated[
    Path | None,
    typer.Option(
        help="Start from the weights in this safetensors file, such as the "
        "weights.safetensors of another run.",
        dir_okay=False,
    ),
]
CodeFolder = Annotated[
    Path | None,
    typer.Option(
        "--code",
        metavar="FOLDER",
        help="Folder with the Python modules of a model of kind bundle. They run as you do: a "
        "worker confines them, this command does not.",
        exists=True,
        file_okay=False,
    ),
]
FormatName = Annotated[
    str,
    typer.Option(
        "--format", help="The number format: float16, bfloat16, float8_e4m3fn or float8_e5m2."
    ),
]
ReportAsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
