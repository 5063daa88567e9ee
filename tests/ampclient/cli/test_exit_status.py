"""Each kind of failure has an exit status of its own."""

import re
from pathlib import Path

import pytest

from ampclient import errors
from ampclient.cli.exit_status import ExitStatus, exit_status_of
from tests.tables import every_row

ROOT = Path(__file__).parents[3]


@every_row(
    ("status", "code", "expected"),
    [
        (400, "bad_request", 3),
        (401, "unauthorized", 5),
        (403, "forbidden", 5),
        (404, "not_found", 4),
        (409, "conflict", 3),
        (413, "too_large", 3),
        (422, "invalid_spec", 3),
        (429, "quota_exceeded", 3),
        (500, "internal_error", 7),
        (502, "bad_gateway", 6),
        (503, "unavailable", 6),
        (504, "outcome_unknown", 6),
    ],
)
def test_a_response_has_an_exit_status(status, code, expected):
    error = errors.error_class_for(status, code)("No.", code=code, status=status)
    assert exit_status_of(error) == expected


@every_row(
    ("error", "expected"),
    [
        (errors.NotConfigured("No."), 2),
        (errors.ConnectionFailed("No."), 6),
        (errors.WaitTimeout("No."), 6),
        (errors.UnexpectedResponse("No."), 7),
        (errors.DigestMismatch("No."), 7),
        (errors.InvalidSpec.from_problems([]), 3),
        (FileNotFoundError("job.yaml"), 7),
    ],
)
def test_an_error_of_this_side_has_one(error, expected):
    assert exit_status_of(error) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["get", "a"], 0),
        (["watch", "a"], 1),
        (["get"], 2),
        (["cancel", "a"], 3),
        (["get", "missing"], 4),
    ],
)
def test_ampctl_exits_with_it(ampctl, server, arguments, expected):
    server.add_job("a", state="failed", reason="out_of_memory", message="Out of memory.")
    assert ampctl(*arguments).code == expected


def test_the_documentation_lists_every_exit_status():
    text = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    section = text.partition("### Exit status")[2].partition("\n## ")[0]
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    assert listed == set(ExitStatus)
