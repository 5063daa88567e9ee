"""A forked Python runs programs as `python` does."""

import signal
import subprocess
import sys

import pytest

from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack")

PROGRAM = """
import atexit, json, os, sys

atexit.register(lambda: print("at exit"))
text = sys.stdin.read()
print(json.dumps([sys.argv, os.getcwd(), dict(os.environ), sys.path[0], __name__, text]))
print("a message", file=sys.stderr)
if text == "an error":
    raise ValueError(text)
sys.exit(3 if text == "a number" else text)
"""


def run(program, folder, arguments, text):
    """The exit code and the outputs; a traceback without the frames of `runpy`."""
    done = subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        env={"A_SETTING": "its value", "LC_CTYPE": "C.UTF-8", "PYTHONPATH": "/no/such/folder"},
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    lines = done.stderr.splitlines()
    return done.returncode, done.stdout, [lines[0], lines[-1]]


@pytest.mark.parametrize("text", ["", "a number", "an error"])
@pytest.mark.parametrize(
    "arguments",
    [["program.py", "one"], ["-m", "program", "--two"], ["-c", PROGRAM, "three"]],
    ids=["script", "module", "text"],
)
def test_a_program_runs_as_with_python(python_commands, tmp_path, arguments, text):
    (tmp_path / "program.py").write_text(PROGRAM)
    forked = run(python_commands / "python", tmp_path, arguments, text)
    assert forked == run(sys.executable, tmp_path, arguments, text)
    assert "at exit" in forked[1]


def test_a_program_that_was_killed_fails_the_command(python_commands, tmp_path):
    text = f"import os; os.kill(os.getpid(), {signal.SIGKILL:d})"
    command = [str(python_commands / "python"), "-c", text]
    assert subprocess.run(command, check=False).returncode == 128 + signal.SIGKILL


def test_nothing_is_imported_twice(python_commands):
    text = "import sys; print('tensorflow' in sys.modules, 'pytest' in sys.modules)"
    command = [str(python_commands / "python"), "-c", text]
    assert subprocess.check_output(command, text=True) == "True False\n"
