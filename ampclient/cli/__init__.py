"""`ampctl`: the command line of an ampcore server."""

import gc
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit, as `ampclient.cli.app.main`.

    Without arguments it runs the process's own command. The garbage collector then skips what the
    imports create: searching that takes a quarter of a short command.
    """
    is_own_process = arguments is None
    if is_own_process:
        gc.disable()
    from ampclient.cli.app import main as run

    if is_own_process:
        gc.freeze()
        gc.enable()
    run(arguments)
