"""Shell completion: bash runs its script; for zsh and fish the calls of their scripts are made."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]
BASH = shutil.which("bash")
# A machine that is busy with other tests may need longer than the default timeout.
PROGRAM = (
    "from ampclient.cli import main, shell_completion; shell_completion.ANSWER_S = 30.0; main()"
)


@pytest.fixture
def completions(configured, tmp_path):
    """Returns bash's completions of the last of these words, with ampctl installed."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "ampctl"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(ampctl completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_ampctl_completion ampctl; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    def complete(*words):
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [BASH, "--norc", "-c", script, "bash", "ampctl", *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        )
        assert done.stderr == ""
        return done.stdout.split()

    return complete


@pytest.mark.slow
def test_bash_completes_commands_states_and_ids(completions, server):
    server.add_job("abc123", state="paused")
    server.add_job("abd456", state="running")
    assert completions("job", "res") == ["resume", "restore"]
    assert completions("list", "--state", "r") == ["running"]
    assert completions("get", "ab") == ["abc123", "abd456"]
    assert completions("resume", "") == ["abc123"]


def test_an_unreachable_server_gives_no_completions_and_no_output(completions, configured):
    configured.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    assert completions("get", "") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_get_a_description_of_each_id(ampctl, server, monkeypatch, shell):
    server.add_job("abc123", state="paused")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "ampctl watch ab")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_AMPCTL_COMPLETE", f"complete_{shell}")
    out = ampctl().out
    assert "abc123" in out
    assert "digits-fp16, paused" in out


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_each_shell_has_a_completion_script(ampctl, shell, word):
    result = ampctl("completion", shell)
    assert result.code == 0
    assert word in result.out
    assert "ampctl" in result.out
