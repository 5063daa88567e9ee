"""Log lines for people (text) or for programs (JSON): with what they belong to, without secrets.

What a line belongs to is a context: `with log_context(job_id=…, attempt=…):` puts both on every
line that is written inside, by whichever library. A thread has a context of its own.
"""

import json
import logging
import logging.config
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

FORMATS: Final = ("text", "json")
CONTEXT: Final = ("request_id", "job_id", "attempt")

context: Final[ContextVar[Mapping[str, Any]]] = ContextVar("log_context")
NOTHING: Final[Mapping[str, Any]] = {}

HIDDEN: Final = "***"
_VALUE: Final = r"[^\s\"'\\,;&}>)\]]+"
_IS: Final = r"[\"'\\]* *[=:,] *(?:b(?=[\"']))?[\"'\\]*"
_SECRETS: Final = (
    ("amp_", r"\bamp_[A-Za-z0-9_-]{8,}", f"amp_{HIDDEN}"),
    ("://", r"(://[^\s/:@\"'\\]*:)[^\s/\"'\\]+@", rf"\1{HIDDEN}@"),
    ("bearer", rf"(?i)\b(bearer) +{_VALUE}", rf"\1 {HIDDEN}"),
    ("authorization", rf"(?i)(authorization{_IS})(?:basic +)?{_VALUE}", rf"\1{HIDDEN}"),
    ("cookie", rf"(?i)(cookie{_IS})[^\"'\\\n]+", rf"\1{HIDDEN}"),
    *((word, rf"(?i)({word}{_IS}){_VALUE}", rf"\1{HIDDEN}")
      for word in ("password", "passwd", "secret", "access_key", "token")),
)  # fmt: skip
"""A word that is near a secret, what the secret looks like, and what is written in its place."""
_PATTERNS: Final = [(word, re.compile(pattern), instead) for word, pattern, instead in _SECRETS]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What begins a line, tells a terminal what to do, or turns the direction of what follows."""


def redacted(text: str) -> str:
    """The text without passwords in addresses, tokens, cookies, and values of Authorization."""
    lower = text.lower()
    for word, pattern, instead in _PATTERNS:
        if word in lower:  # most lines hold none, and this is a tenth of the cost of a pattern
            text = pattern.sub(instead, text)
    return text


@contextmanager
def log_context(**values: Any) -> Iterator[None]:
    """Put the values on every line written inside; None leaves one out."""
    known = {name: value for name, value in values.items() if value is not None}
    before = context.set({**context.get(NOTHING), **known})
    try:
        yield
    finally:
        context.reset(before)


class AddContext(logging.Filter):
    """Puts the present context on a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes."""
        for name, value in context.get(NOTHING).items():
            setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    """One line a record, the traceback below it."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """The line; what somebody else chose must not look like a second one, nor steer."""
        known = [f" {name}={getattr(record, name)}" for name in CONTEXT if hasattr(record, name)]
        return "".join([_CONTROL.sub(_escaped, super().formatMessage(record)), *known])

    def format(self, record: logging.LogRecord) -> str:
        """The line and the traceback, without secrets."""
        return redacted(super().format(record))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the context, what else is known."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without secrets."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            told["exc_info"] = self.formatException(record.exc_info)
        if record.stack_info:
            told["stack_info"] = self.formatStack(record.stack_info)
        return redacted(json.dumps(told, default=str))


_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; the rest is what somebody wanted to be told."""


def set_up_logging(log_format: str, log_file: Path | None = None) -> None:
    """Everything to the file, warnings to the terminal; without a file, everything there."""
    terminal = {"class": "logging.StreamHandler", "formatter": log_format, "filters": ["context"]}
    handlers: dict[str, dict[str, Any]] = {"terminal": terminal}
    if log_file is not None:
        handlers["file"] = {**terminal, "class": "logging.FileHandler", "filename": str(log_file)}
        terminal.update(formatter="text", level="WARNING")  # a person reads it
    text = {"()": TextFormatter, "format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    quiet = ("alembic", "botocore", "aiobotocore", "s3fs", "fsspec", "httpx")
    logging.captureWarnings(True)
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"context": {"()": AddContext}},
            "formatters": {"text": text, "json": {"()": JsonFormatter}},
            "handlers": handlers,
            "root": {"level": "INFO", "handlers": list(handlers)},
            "loggers": {name: {"level": "WARNING"} for name in quiet},
        }
    )
