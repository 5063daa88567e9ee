"""What shells offer on TAB; bash itself is asked, the others as their scripts would ask."""

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
# A machine that is busy with other tests may take longer than a person would wait.
PROGRAM = (
    "from ampclient.cli import main, shell_completion; shell_completion.ANSWER_S = 30.0; main()"
)


@pytest.fixture
def offered(configured, tmp_path):
    """What bash offers for the last of these words, on a machine where ampctl is installed."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "ampctl"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n')
    command.chmod(0o755)
    ask = (
        'eval "$(ampctl completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_ampctl_completion ampctl; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    def offer(*words):
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [BASH, "--norc", "-c", ask, "bash", "ampctl", *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        )
        assert done.stderr == ""
        return done.stdout.split()

    return offer


def test_bash_completes_commands_states_and_ids(offered, server):
    server.add_job("abc123", state="paused")
    server.add_job("abd456", state="running")
    assert offered("res") == ["resume"]
    assert offered("list", "--state", "r") == ["running"]
    assert offered("get", "ab") == ["abc123", "abd456"]
    assert offered("resume", "") == ["abc123"]


def test_a_server_that_is_away_offers_nothing_and_says_nothing(offered, configured):
    configured.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    assert offered("get", "") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_are_told_what_an_id_stands_for(ampctl, server, monkeypatch, shell):
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
def test_every_shell_has_its_script(ampctl, shell, word):
    result = ampctl("completion", shell)
    assert result.code == 0
    assert word in result.out
    assert "ampctl" in result.out
