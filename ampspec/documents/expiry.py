"""`--expires 30d`: when a token expires, as people write it."""

import re
from datetime import datetime, timedelta
from typing import Final

UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
EXPIRY_HELP: Final = "When it expires: 15m, 12h, 30d or 4w from now, or a date (default: never)."


def parse_expiry(text: str, now: datetime) -> datetime:
    """A duration from `now`, or a date; one without a zone is in that of this machine.

    Raises ValueError.
    """
    try:
        if match := re.fullmatch(r"([1-9]\d{0,6})([mhdw])", text):
            return now + timedelta(**{UNITS[match[2]]: int(match[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        expected = "Expected a duration such as 30d or 12h, or a date such as 2030-12-31"
        raise ValueError(f"{expected}; received {text!r}.") from None
