"""The filters of jobs as people write them, and as a request has them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

Labels = str | Iterable[str] | Mapping[str, str]


def several(words: str | Iterable[str] | None) -> Sequence[str]:
    """One word, several or none, as a list."""
    return [words] if isinstance(words, str) else [*(words or ())]


def label_texts(labels: Labels | None) -> Sequence[str]:
    """Labels as `key=value` or `key`."""
    if isinstance(labels, Mapping):
        return [f"{key}={value}" for key, value in labels.items()]
    return several(labels)


def moment_text(value: datetime | str | None) -> str | None:
    """A time with its zone: a naive one is in the caller's, which the server cannot know."""
    return value.astimezone().isoformat() if isinstance(value, datetime) else value
