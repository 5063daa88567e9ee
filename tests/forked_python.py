"""Python programs without the seconds that importing TensorFlow takes: forked from one process.

A server imports what users' programs import, as the fork server of trainers does, and starts
nothing (docs/adr/0029). The commands of `install` connect to it; it forks a process for each, with
the command's arguments, folder, environment and standard streams, which runs the program as
`__main__`. The command ends with its exit code.
"""

import atexit
import builtins
import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

STREAMS = 3
PRELOADED = ("ampclient.cli.app", "pandas", "PIL.Image")
"""What programs import besides the modules of a trainer."""
COMMAND = """#!{python} -IS
import json, os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
arguments = [*{arguments!r}, *sys.argv[1:]]
request = dict(arguments=arguments, folder=os.getcwd(), environ=dict(os.environ))
socket.send_fds(server, [b"R"], [0, 1, 2])
server.sendall(json.dumps(request).encode() + b"\\n")
code = server.makefile().readline()
sys.exit(int(code) if code else "the process that programs are forked from has ended")
"""
AMPCTL = "import sys; from ampclient.cli import main; sys.exit(main())"
"""What the installed script does."""


@contextlib.contextmanager
def forked_python(folder: Path) -> Iterator[Path]:
    """Run the server; returns its folder, with the commands `python` and `ampctl`."""
    address, commands = folder / "server", folder / "bin"
    install(commands, address)
    command = [sys.executable, "-m", "tests.forked_python", str(address)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], **pipes) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        yield commands
        server.communicate()  # it ends with its standard input


def install(folder: Path, address: Path) -> None:
    """Create the commands in a folder."""
    folder.mkdir()
    for name, arguments in {"python": [], "ampctl": ["-c", AMPCTL]}.items():
        text = COMMAND.format(python=sys.executable, address=str(address), arguments=arguments)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def serve(address: str) -> None:
    """Fork a process for each connection, until standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(address)
        listener.listen()
        ready.register(listener, selectors.EVENT_READ)
        ready.register(sys.stdin, selectors.EVENT_READ)
        print("listening", flush=True)
        while sys.stdin not in [key.fileobj for key, _ in ready.select()]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()
            _reap()


def _reap() -> None:
    """Collect the ended processes, so that their processor time counts as that of the server."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(connection: socket.socket) -> NoReturn:
    """Run the program of a connection in another process, and send its exit code."""
    _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
    request = json.loads(connection.makefile().readline())
    if (program := os.fork()) == 0:
        connection.close()
        for stream, descriptor in enumerate(streams):
            os.dup2(descriptor, stream)
            os.close(descriptor)
        _run_and_exit(request)
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(OSError):  # the command was killed
        connection.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
    os._exit(0)


def _run_and_exit(request: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit._clear()  # those of the server
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    code = 1
    try:
        _run(request["arguments"])
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving.code)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]  # as at the end of Python
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _exit_code(code: Any) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _run(arguments: list[str]) -> None:
    """Run what `python` with these arguments runs."""
    kind, *rest = arguments
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = paths
    match kind:
        case "-c":
            text, *sys.argv[1:] = rest
            sys.argv[0], sys.path[0:0] = "-c", [""]
            module = sys.modules["__main__"] = types.ModuleType("__main__")
            module.__dict__["__builtins__"] = builtins
            exec(compile(text, "<string>", "exec"), module.__dict__)  # noqa: S102
        case "-m":
            name, *sys.argv[1:] = rest
            sys.path.insert(0, os.getcwd())
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case script if not script.startswith("-"):
            sys.argv[:] = arguments
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.exit(f"a forked Python has no option {kind}")


if __name__ == "__main__":
    from importlib import import_module

    from worker.trainer.child import trainer_process

    trainer_process.preload()
    for preloaded in PRELOADED:
        import_module(preloaded)
    gc.collect()
    gc.freeze()  # no program has to look for unused objects among these
    serve(sys.argv[1])
