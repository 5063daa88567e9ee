"""DataObject: one object of a store, its version and its bytes, through fsspec.

The library of the store reads the credentials from the worker's environment; trainers have neither.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from ampspec.references.object_url import ObjectUrl
from infra.storage import FileNotStored, StorageFailed

PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}
"""The packages with fsspec's file systems, by scheme."""
MAX_ETAG: Final = 200
T = TypeVar("T")


@dataclass(frozen=True)
class ObjectVersion:
    """The bytes that an object has: they have changed if the ETag or the size has."""

    etag: str
    size_bytes: int

    def cache_name(self, url: ObjectUrl) -> str:
        """The name of the downloaded file in the cache of datasets.

        A person can upload a file with any text, also one whose SHA-256 is the digest here; so the
        names of objects have a prefix.
        """
        digest = hashlib.sha256(f"{url}\n{self.etag}\n{self.size_bytes}".encode()).hexdigest()
        return f"object-{digest}"

    def __str__(self) -> str:
        return f"ETag {self.etag}, {self.size_bytes:,} bytes"


class DataObject:
    """One object. Methods raise StorageFailed; FileNotStored if another try cannot help.

    Args:
        url: Where it is; one that the operator allows.
    """

    def __init__(self, url: ObjectUrl) -> None:
        self.url = url
        self._path = "/".join((url.bucket, *url.key))

    def version(self) -> ObjectVersion:
        """The version that the store has now."""
        info = self._do(lambda fs: fs.info(self._path))
        if info.get("type") != "file":
            raise FileNotStored(f"{self.url} is a folder, not an object.")
        etag = str(info.get("ETag") or info.get("etag") or "").strip('"')
        if not etag:
            raise StorageFailed(f"The store has no ETag for {self.url}.")
        return ObjectVersion(etag[:MAX_ETAG], int(info["size"]))

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`, in one request."""
        return bytes(self._do(lambda fs: fs.cat_file(self._path, start=start, end=end)))

    def _do(self, work: Callable[[Any], T]) -> T:
        try:
            return work(self._file_system)
        except FileNotFoundError:
            raise FileNotStored(f"There is no object {self.url}.") from None
        except PermissionError:
            raise FileNotStored(f"The store denies the worker access to {self.url}.") from None
        except Exception as error:  # each library has its own
            reason = str(error).partition("\n")[0][:200] or type(error).__name__
            raise StorageFailed(f"{self.url} could not be read: {reason}.") from error

    @cached_property
    def _file_system(self) -> Any:
        import fsspec

        # Others write the objects, so listings must not be cached.
        return fsspec.filesystem(
            self.url.scheme, use_listings_cache=False, skip_instance_cache=True
        )
