"""Terminals and pipes that are not in UTF-8: plain signs in place of those they cannot show."""

import codecs
import sys
from typing import Final

ERRORS: Final = "ampctl"
PLAIN: Final = {"–": "-", "—": "-", "…": "~", "×": "x", "·": "*", "’": "'", "━": "=", "╸": "-"}


def speak_the_terminals_encoding() -> None:
    """Let standard output and error replace what they cannot encode, instead of failing."""
    codecs.register_error(ERRORS, _plain)
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (getattr(stream, "encoding", None) or "utf").lower():
            stream.reconfigure(errors=ERRORS)  # type: ignore[union-attr]


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in unknown), error.end
