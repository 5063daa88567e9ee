import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.log_config import ContextFilter, JsonFormatter, TextFormatter, log_context, redact
from tests.tables import every_row

ROOT = Path(__file__).parents[2]
TOKEN = "amp_" + "aB3_-" * 8


@pytest.fixture
def write():
    """Format a record as text and as JSON, with the current log context."""

    def write(message, *arguments, error=None, **extra):
        info = (type(error), error, None) if error is not None else None
        record = logging.LogRecord("amp", logging.INFO, __file__, 1, message, arguments, info)
        record.__dict__.update(extra)
        ContextFilter().filter(record)
        text = TextFormatter("%(levelname)s %(name)s: %(message)s").format(record)
        return text, json.loads(JsonFormatter().format(record))

    return write


def test_a_log_line_has_the_fields_of_its_context(write):
    with log_context(request_id="r-1"), log_context(job_id="j", attempt=2, rank=1, other=None):
        text, logged = write("job %s", "starts")
    assert text == "INFO amp: job starts request_id=r-1 job_id=j attempt=2 rank=1"
    assert (logged["level"], logged["logger"], logged["message"]) == ("INFO", "amp", "job starts")
    assert (logged["request_id"], logged["job_id"], logged["attempt"]) == ("r-1", "j", 2)
    assert logged["time"].endswith("+00:00")
    assert "other" not in logged


def test_a_log_context_ends_with_its_block_and_belongs_to_one_thread(write):
    with log_context(job_id="j"):
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(write("x")[0]))
        thread.start()
        thread.join()
    assert elsewhere == ["INFO amp: x"]
    assert write("x")[0] == "INFO amp: x"


def test_line_breaks_in_a_message_are_escaped(write):
    text, logged = write("job %s", "x\r\nINFO amp: everything is fine")
    assert text == "INFO amp: job x\\r\\nINFO amp: everything is fine"
    assert logged["message"] == "job x\r\nINFO amp: everything is fine"


def test_control_characters_are_escaped(write):
    text, logged = write("job %s", "\x1b[2J\x00\x9b31m\u2028\u202ex\tå")
    assert text == r"INFO amp: job \x1b[2J\x00\x9b31m\u2028\u202ex\tå"
    assert logged["message"] == "job \x1b[2J\x00\x9b31m\u2028\u202ex\tå"


SECRETS = [
    f"the token {TOKEN} was used",
    "could not reach postgresql://ada:hush@host/amp",
    "could not reach redis://:hush@127.0.0.1:6379/0 at all",
    "postgresql://ada:hu@sh:hush@host/amp",
    "Authorization: Bearer hush",
    "Authorization: Basic hush",
    "{'authorization': 'Basic hush', 'x': 'y'}",
    "[(b'authorization', b'hush')]",
    '{"Authorization": "hush"}',
    "Cookie: ampcore_session=hush; other=hush",
    "{'set-cookie': 'ampcore_session=hush; HttpOnly'}",
    "GET /x?token=hush&y=1",
    "password='hush'",
    '{"secret": "hush"}',
    "AWS_SECRET_ACCESS_KEY=hush",
    "requirepass: password = hush",
]


@every_row("text", SECRETS)
def test_secrets_are_redacted_in_messages_arguments_errors_and_fields(write, text):
    lines = [
        write(text)[0],
        json.dumps(write(text)[1]),
        *map(str, write("%s", text)),
        *map(str, write("failed", error=RuntimeError(text))),
        str(write("x", detail=text)[1]),
    ]
    for line in lines:
        assert "hush" not in line
        assert TOKEN not in line
    assert "***" in lines[0]


@every_row(
    "text",
    [
        "https://host:8470/api/v1/jobs",
        "GET /api/v1/jobs 200 3.1 ms",
        "sqlite:////data/ampcore.sqlite",
        "ada@example.org asked at 10:30",
        "the ampcore_session cookie has expired",
        "basic training of 7 tokens",
    ],
)
def test_text_without_secrets_is_not_changed(text):
    assert redact(text) == text


def run(script):
    """What a script writes to stderr."""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stderr


def test_loggers_of_libraries_write_the_same_json_lines():
    written = run(
        "import logging, warnings\n"
        "from infra.log_config import set_up_logging\n"
        "set_up_logging('json')\n"
        "for name in ('uvicorn.error', 'celery.worker', 'server.http.access', 'botocore'):\n"
        "    logging.getLogger(name).info('from ' + name)\n"
        "warnings.warn('look')\n"
    )
    logged = [json.loads(line) for line in written.splitlines()]
    assert [line["logger"] for line in logged] == [
        "uvicorn.error", "celery.worker", "server.http.access", "py.warnings",
    ]  # fmt: skip


def test_with_a_log_file_the_terminal_gets_only_warnings(tmp_path):
    written = run(
        "import logging; from pathlib import Path; from infra.log_config import set_up_logging\n"
        f"set_up_logging('json', Path({str(tmp_path / 'log')!r}))\n"
        "logging.info('quiet'); logging.warning('loud')\n"
    )
    assert "quiet" not in written
    assert "WARNING root: loud" in written
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["message"] for line in lines] == ["quiet", "loud"]
