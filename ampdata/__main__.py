"""`python -m ampdata FILE` prints the description of a data file as one line of JSON.

The process limits its memory, its CPU time and the size of written files. Exit codes: 0 described,
1 invalid data, 2 invalid command, 3 a limit was reached or the disk is full. With 1 and 3 the JSON
is `{"error": …}`.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pydantic import TypeAdapter, ValidationError

from ampspec.data.file_formats import FormatOptions
from ampspec.errors import InvalidData
from infra.isolation.process_limits import OutOfCpuTime, limit_resources

INVALID_DATA: Final = 1
BAD_COMMAND: Final = 2
OUT_OF_RESOURCES: Final = 3
if TYPE_CHECKING:
    from ampdata.file_description import FileDescription

MIB: Final = 2**20
ADAPTER: Final[TypeAdapter[FormatOptions]] = TypeAdapter(FormatOptions)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    file: Annotated[Path, typer.Argument(help="A data file, or a folder of them.")],
    *,
    options: Annotated[
        str | None,
        typer.Option(help='How to read it, as JSON: {"kind": "csv"}. Default: recognized.'),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the file in messages.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for converted files. Default: temporary.")
    ] = None,
    check: Annotated[
        bool, typer.Option(help="Decode every image, instead of reading only the headers.")
    ] = False,
    memory: Annotated[int, typer.Option(min=256, help="Memory of the process, in MiB.")] = 2048,
    cpu: Annotated[int, typer.Option(min=1, help="CPU time, in seconds.")] = 600,
    disk: Annotated[
        int, typer.Option(min=1, help="The largest file that it may write, in MiB.")
    ] = 65_536,
) -> None:
    """Print the description of FILE as JSON."""
    chosen = _parse_options(options)
    limit_resources(memory * MIB, cpu, disk * MIB)
    # Arrow's own allocators reserve more than they use.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    try:
        with tempfile.TemporaryDirectory(prefix="ampcore-formats-") as temporary:
            description = _describe(file, chosen, cache or Path(temporary), name, check=check)
    except InvalidData as error:
        _fail(
            INVALID_DATA,
            code="invalid_data",
            source=error.source,
            field=error.field,
            expected=error.expected,
            received=error.received,
            message=str(error),
        )
    except MemoryError:
        _fail(OUT_OF_RESOURCES, code="memory", message=f"The file needs more than {memory:,} MiB.")
    except OutOfCpuTime:
        _fail(
            OUT_OF_RESOURCES, code="cpu", message=f"The file needs more than {cpu:,} s of CPU time."
        )
    except OSError as error:
        message = f"Cannot write converted files: {error.strerror or error}."
        _fail(OUT_OF_RESOURCES, code="disk", message=message)
    typer.echo(description.model_dump_json())


def _describe(
    file: Path, options: FormatOptions | None, cache: Path, name: str | None, *, check: bool
) -> "FileDescription":
    from ampdata.description import describe
    from ampdata.opening import check_images
    from ampdata.source import OpenRequest

    description = describe(file, options, cache=cache, name=name)
    if check:
        kept = {"missing": "keep"} if "missing" in description.options else {}
        read_options = ADAPTER.validate_python({**description.options, **kept})
        check_images(OpenRequest(file, name or file.name, cache), read_options)
    return description


def _parse_options(text: str | None) -> FormatOptions | None:
    if text is None:
        return None
    try:
        return ADAPTER.validate_json(text)
    except ValidationError as error:
        typer.echo(f"--options: {error}", err=True)
        raise typer.Exit(BAD_COMMAND) from None


def _fail(exit_code: int, **error: Any) -> None:
    typer.echo(json.dumps({"error": error}))
    sys.exit(exit_code)


if __name__ == "__main__":
    app()
