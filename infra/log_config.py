"""Logging: text or JSON lines, with context fields, and with secrets removed.

`with log_context(job_id=…, attempt=…):` adds both fields to every line that is logged inside, by
any library. Each thread has its own context.
"""

import logging
import logging.config
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Literal

from pythonjsonlogger import core, json

LogFormat = Literal["text", "json"]
CONTEXT_FIELDS: Final = ("request_id", "job_id", "attempt", "rank", "trace_id")

context: Final[ContextVar[Mapping[str, Any]]] = ContextVar("log_context")
NO_CONTEXT: Final[Mapping[str, Any]] = {}

REDACTED: Final = "***"
_VALUE: Final = r"[^\s\"'\\,;&}>)\]]+"
_SEPARATOR: Final = r"[\"'\\]* *[=:,] *(?:b(?=[\"']))?[\"'\\]*"
_SECRETS: Final = (
    ("amp_", r"\bamp_[A-Za-z0-9_-]{8,}", f"amp_{REDACTED}"),
    ("://", r"(://[^\s/:@\"'\\]*:)[^\s/\"'\\]+@", rf"\1{REDACTED}@"),
    ("bearer", rf"(?i)\b(bearer) +{_VALUE}", rf"\1 {REDACTED}"),
    ("authorization", rf"(?i)(authorization{_SEPARATOR})(?:basic +)?{_VALUE}", rf"\1{REDACTED}"),
    ("cookie", rf"(?i)(cookie{_SEPARATOR})[^\"'\\\n]+", rf"\1{REDACTED}"),
    *((word, rf"(?i)({word}{_SEPARATOR}){_VALUE}", rf"\1{REDACTED}")
      for word in ("password", "passwd", "secret", "access_key", "token")),
)  # fmt: skip
"""A word that appears near a secret, the pattern of the secret, and its replacement."""
_PATTERNS: Final = [(word, re.compile(pattern), instead) for word, pattern, instead in _SECRETS]

_CONTROL_CHARACTERS: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Line breaks, terminal control characters, and marks that change the text direction."""


def redact(text: str) -> str:
    """The text without passwords in URLs, tokens, cookies, and values of Authorization."""
    lower = text.lower()
    for word, pattern, instead in _PATTERNS:
        if word in lower:  # most lines have none, and this costs a tenth of a regular expression
            text = pattern.sub(instead, text)
    return text


@contextmanager
def log_context(**values: Any) -> Iterator[None]:
    """Add the values to every line that is logged inside; None leaves one out."""
    fields = {name: value for name, value in values.items() if value is not None}
    token = context.set({**context.get(NO_CONTEXT), **fields})
    try:
        yield
    finally:
        context.reset(token)


class ContextFilter(logging.Filter):
    """Adds the current context to a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the context; no record is dropped."""
        for name, value in context.get(NO_CONTEXT).items():
            setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    """One line per record, with the traceback below it."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """The line, with control characters escaped: user input must not look like another line."""
        fields = [
            f" {name}={getattr(record, name)}" for name in CONTEXT_FIELDS if hasattr(record, name)
        ]
        return "".join([_CONTROL_CHARACTERS.sub(_escaped, super().formatMessage(record)), *fields])

    def format(self, record: logging.LogRecord) -> str:
        """The line and the traceback, without secrets."""
        return redact(super().format(record))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class JsonFormatter(json.JsonFormatter):
    """One JSON object per line: time, level, logger, message, context and extra fields."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp="time",
            reserved_attrs=[*core.RESERVED_ATTRS, "color_message"],  # uvicorn's message, coloured
        )

    def format(self, record: logging.LogRecord) -> str:
        """The line, without secrets."""
        return redact(super().format(record))


def set_up_logging(log_format: str, log_file: Path | None = None) -> None:
    """Log everything to the file and warnings to the terminal, or without a file all to it."""
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
            "filters": {"context": {"()": ContextFilter}},
            "formatters": {"text": text, "json": {"()": JsonFormatter}},
            "handlers": handlers,
            "root": {"level": "INFO", "handlers": list(handlers)},
            "loggers": {name: {"level": "WARNING"} for name in quiet},
        }
    )
