"""Reads members of a zip archive by offset, from several threads, with checks of names and sizes.

Source: APPNOTE.TXT 6.3.10 (PKWARE), sections 4.3 and 4.4.
"""

import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from ampdata.files import DataFile, open_file, read_errors, read_range
from ampdata.limits import Limits
from ampspec.errors import InvalidData

LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
END: Final = struct.Struct("<4s4H2IH")
END_64_LOCATOR: Final = struct.Struct("<4sIQI")
END_64: Final = struct.Struct("<4sQ2H2I4Q")
MAX_COMMENT: Final = 2**16 - 1
MAX_ENTRY_BYTES: Final = 1024
"""Maximum average size of a directory entry: name, extra fields and comment."""
ENCRYPTED: Final = 0x1
LINK: Final = 0xA
BLOCK: Final = 2**20
DRIVE: Final = re.compile("[A-Za-z]:")
ARCHIVE: Final = "a zip archive"
SIGNATURES: Final = (b"PK\3\4", b"PK\5\6")


def is_zip(file: DataFile) -> bool:
    """Whether a file starts like a zip archive. Raises InvalidData."""
    with open_file(file) as stream:
        return stream.read(len(SIGNATURES[0])).startswith(SIGNATURES)


@dataclass(frozen=True, slots=True)
class Member:
    """One file in an archive."""

    name: str
    size: int
    compressed_size: int
    stored: bool
    header_offset: int
    crc: int


class ZipMembers:
    """The files of an archive, in the order of its directory."""

    def __init__(self, file: DataFile, limits: Limits) -> None:
        """Read the directory. Raises InvalidData."""
        self.name = file.name
        with read_errors(file.name):
            if not file.path.is_file():
                raise InvalidData(
                    file.name, None, expected="a file", received="no file of this name"
                )
            self._stream = file.path.open("rb")
        try:
            self._size = os.fstat(self._stream.fileno()).st_size
            count = self._count_members(limits)
            self.members = [self._member(info) for info in self._directory()]
            if len(self.members) != count:
                raise self._invalid(f"{count:,} members", f"{len(self.members):,}")
            self._check_names()
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        """Close the archive."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def data_offset(self, member: Member) -> int:
        """Where the member's data starts in the archive. Raises InvalidData."""
        header = self._pread(member.header_offset, LOCAL_HEADER.size)
        if len(header) < LOCAL_HEADER.size or not header.startswith(b"PK\3\4"):
            raise self._invalid("a member header", "other bytes", member)
        *_, name_size, extra_size = LOCAL_HEADER.unpack(header)
        start = member.header_offset + LOCAL_HEADER.size + int(name_size) + int(extra_size)
        if start + member.compressed_size > self._size:
            raise self._invalid("a complete file", "a truncated one", member)
        return start

    def blocks(self, member: Member) -> Iterator[bytes]:
        """The member's content in blocks of about a megabyte; checks its size and CRC-32."""
        crc = size = 0
        for block in self._inflate(member):
            size += len(block)
            if size > member.size:
                break
            crc = zlib.crc32(block, crc)
            yield block
        if size != member.size:
            received = "more" if size > member.size else f"{size:,}"
            raise self._invalid(f"{member.size:,} bytes", received, member)
        if crc != member.crc:
            raise self._invalid(f"CRC-32 {member.crc:08x}", f"{crc:08x}", member)

    def read(self, member: Member, max_bytes: int) -> bytes:
        """The member's content. Raises InvalidData, also if it exceeds `max_bytes`."""
        if member.size > max_bytes:
            raise self._invalid(f"at most {max_bytes:,} bytes", f"{member.size:,}", member)
        return b"".join(self.blocks(member))

    def check_total(self, members: Sequence[Member], max_bytes: int) -> None:
        """Raise InvalidData if members exceed `max_bytes` when decompressed."""
        size = sum(member.size for member in members)
        if size > max_bytes:
            raise self._invalid(f"at most {max_bytes:,} bytes when decompressed", f"{size:,}")

    def _inflate(self, member: Member) -> Iterator[bytes]:
        offset, remaining = self.data_offset(member), member.compressed_size
        inflater = None if member.stored else zlib.decompressobj(-zlib.MAX_WBITS)
        while remaining > 0:
            block = self._pread(offset, min(BLOCK, remaining))
            if not block:
                return
            offset, remaining = offset + len(block), remaining - len(block)
            if inflater is None:
                yield block
                continue
            while block:
                yield self._decompress(inflater, block, member)
                block = inflater.unconsumed_tail
        while inflater is not None and not inflater.eof:
            block = self._decompress(inflater, b"", member)
            if not block:
                return
            yield block

    def _decompress(self, inflater: "zlib._Decompress", block: bytes, member: Member) -> bytes:
        try:
            return inflater.decompress(block, BLOCK)
        except zlib.error as error:
            raise self._invalid("deflated data", str(error), member) from None

    def _count_members(self, limits: Limits) -> int:
        """The number of members, checked before zipfile allocates memory for each."""
        tail = self._pread(max(0, self._size - END.size - MAX_COMMENT), END.size + MAX_COMMENT)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or at + END.size > len(tail):
            raise self._invalid(ARCHIVE, "a file without an archive's directory")
        count, size = END.unpack_from(tail, at)[4:6]
        position = self._size - len(tail) + at - END_64_LOCATOR.size
        locator = self._pread(max(0, position), END_64_LOCATOR.size)
        if len(locator) == END_64_LOCATOR.size and locator.startswith(b"PK\6\7"):
            end = self._pread(END_64_LOCATOR.unpack(locator)[2], END_64.size)
            if len(end) == END_64.size:
                count, size = END_64.unpack(end)[7:9]
        if count > limits.files or size > MAX_ENTRY_BYTES * limits.files:
            raise self._invalid(f"at most {limits.files:,} files", f"{count:,}")
        return int(count)

    def _directory(self) -> Iterator[zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._stream) as archive:
                yield from archive.infolist()
        except (ValueError, NotImplementedError, zipfile.BadZipFile, struct.error) as error:
            raise self._invalid(ARCHIVE, str(error)) from None

    def _member(self, info: zipfile.ZipInfo) -> Member:
        member = Member(
            info.filename.replace("\\", "/"),  # archives created on Windows
            info.file_size,
            info.compress_size,
            info.compress_type == zipfile.ZIP_STORED,
            info.header_offset,
            info.CRC,
        )
        if info.flag_bits & ENCRYPTED:
            raise self._invalid("a member without a password", "an encrypted one", member)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            received = f"compression {info.compress_type}"
            raise self._invalid("a stored or deflated member", received, member)
        if info.external_attr >> 28 == LINK:
            raise self._invalid("a file", "a link", member)
        if member.stored and member.size != member.compressed_size:
            raise self._invalid(f"{member.size:,} bytes", f"{member.compressed_size:,}", member)
        return member

    def _check_names(self) -> None:
        seen = set()
        for member in self.members:
            parts = member.name.rstrip("/").split("/")
            outside = ".." in parts or "" in parts or DRIVE.fullmatch(parts[0])
            if outside or "\0" in member.name:
                raise self._invalid("a relative path inside the archive", "another path", member)
            if member.name in seen:
                raise self._invalid("one member of this name", "two", member)
            seen.add(member.name)

    def _pread(self, offset: int, size: int) -> bytes:
        with read_errors(self.name):
            return read_range(self._stream.fileno(), offset, size)

    def _invalid(self, expected: str, received: str, member: Member | None = None) -> InvalidData:
        field = None if member is None else member.name[:256]
        return InvalidData(self.name, field, expected=expected, received=received)
