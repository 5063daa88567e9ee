"""URLs of objects in object stores: their form, and whether an operator allows them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

SCHEMES: Final = ("s3", "gs", "az")
"""Amazon S3 and compatible stores, Google Cloud Storage, Azure Blob Storage."""
MAX_URL: Final = 1024
EXPECTED: Final = (
    f"{SCHEMES[0]}://BUCKET/KEY ({', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}), whose key has only "
    "letters, digits, spaces and !'()+,-./=@_, and no empty part, . or .."
)

# Other characters have a meaning in URLs or for fsspec: queries, wildcards, chained URLs.
_URL: Final = re.compile(
    rf"(?P<scheme>{'|'.join(SCHEMES)})://(?P<bucket>[a-z0-9][a-z0-9._-]{{1,254}})/(?P<key>.+)"
)
_PART: Final = re.compile(r"[\w !'()+,\-.=@]+")
MAX_PART_BYTES: Final = 255
"""The last part becomes the name of the downloaded file."""


class InvalidUrl(ValueError):
    """A text is not the URL of an object."""


@dataclass(frozen=True)
class ObjectUrl:
    """An object, or a prefix of objects."""

    scheme: str
    bucket: str
    key: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The URL of an object. Raises InvalidUrl."""
        match = _URL.fullmatch(text) if len(text) <= MAX_URL else None
        parts = tuple(match["key"].split("/")) if match is not None else ()
        if match is None or not all(map(_is_part, parts)):
            raise InvalidUrl(f"expected {EXPECTED}")
        return cls(match["scheme"], match["bucket"], parts)

    @classmethod
    def parse_prefix(cls, text: str) -> Self:
        """A prefix: a bucket, or a folder in it. Raises InvalidUrl."""
        whole = cls.parse(f"{text.rstrip('/')}/object")
        return cls(whole.scheme, whole.bucket, whole.key[:-1])

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key[-1]

    def is_below(self, prefixes: Iterable["ObjectUrl"]) -> bool:
        """Whether it is below one of the prefixes; `s3://a/b` is not a prefix of `s3://a/bc`."""
        return any(
            (self.scheme, self.bucket) == (prefix.scheme, prefix.bucket)
            and len(self.key) > len(prefix.key)
            and self.key[: len(prefix.key)] == prefix.key
            for prefix in prefixes
        )

    def __str__(self) -> str:
        return f"{self.scheme}://{'/'.join((self.bucket, *self.key))}"


def is_url(path: str | None) -> bool:
    """Whether a path of data is a URL, valid or not."""
    return path is not None and "://" in path


def _is_part(part: str) -> bool:
    is_plain = _PART.fullmatch(part) is not None and part not in (".", "..")
    return is_plain and len(part.encode()) <= MAX_PART_BYTES
