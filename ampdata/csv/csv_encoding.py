"""Detects the encoding of text files."""

import codecs
from collections.abc import Sequence
from typing import Final

from ampdata.files import DataFile, open_file
from ampspec.data.file_formats import Encoding
from ampspec.errors import InvalidData

BLOCK: Final = 2**20
MARKS_OF_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SAMPLE: Final = 4096
MIN_HALVES: Final = 0.6
"""The share of characters with a zero byte from which a text is UTF-16 without a mark."""
WESTERN: Final[Encoding] = "windows-1252"
MAX_SHARE: Final = 0.4
"""In Western languages, the largest share of letters that are not ASCII."""


def find_encoding(files: Sequence[DataFile]) -> Encoding:
    """The encoding of text files.

    UTF-16 by its mark or its zeros, UTF-8 if all bytes are valid, else Windows-1252. A file that
    mixes UTF-8 and other bytes is damaged, and the reader reports the line.

    Raises InvalidData for text in another alphabet, whose encoding cannot be told, and for files
    in several encodings.
    """
    first: tuple[DataFile, Encoding] | None = None
    for file in files:
        encoding = _encoding_of(file)
        if encoding is None:
            continue
        if first is not None and first[1] != encoding:
            raise InvalidData(
                file.name,
                "encoding",
                expected=f"text in {first[1]}, as {first[0].name} is",
                received=f"text in {encoding}",
            )
        first = file, encoding
    return "utf-8" if first is None else first[1]


def decode_start(start: bytes, encoding: str, *, is_whole: bool) -> str:
    """The text at the start of a file; without a character that is divided at its end."""
    codec = codec_of(encoding, start)
    return codecs.getincrementaldecoder(codec)("replace").decode(start, final=is_whole)


def codec_of(encoding: str, start: bytes) -> str:
    """Python's name of an encoding, by the first bytes: UTF-16 may have a mark, or none."""
    if encoding == "utf-16" and not start.startswith(MARKS_OF_UTF16):
        return "utf-16-be" if start.startswith(b"\0") else "utf-16-le"
    return "utf-8-sig" if encoding == "utf-8" else encoding


def guess_encoding(start: bytes, *, is_whole: bool) -> Encoding | None:
    """The encoding of the start of a file; None if it is not text."""
    if _is_utf16(start):
        try:
            codec = codec_of("utf-16", start)
            text = codecs.getincrementaldecoder(codec)().decode(start, final=is_whole)
        except UnicodeDecodeError:
            return None
        return None if _has_controls(text) else "utf-16"
    if b"\0" in start or not start:
        return None
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=is_whole)
    except UnicodeDecodeError as error:
        if any(byte >= 0x80 for byte in start[: error.start]):
            return "utf-8"
        is_text = _is_western(start) and not _has_controls(start.decode(WESTERN))
        return WESTERN if is_text else None
    return None if _has_controls(text) else "utf-8"


def _is_utf16(start: bytes) -> bool:
    """Whether a text has a UTF-16 mark, or zeros in every second byte, as ASCII in UTF-16 has."""
    low, high = start[:SAMPLE:2].count(0), start[1:SAMPLE:2].count(0)
    half_size = min(len(start), SAMPLE) // 2
    has_halves = min(low, high) == 0 and max(low, high) > MIN_HALVES * half_size > 0
    return start.startswith(MARKS_OF_UTF16) or has_halves


def _has_controls(text: str) -> bool:
    """Whether a text has characters that only binary files have; Hive separates cells by U+0001."""
    return "\ufeff" in text[1:] or any(
        character < "\t" and character != "\x01" for character in text
    )


def _encoding_of(file: DataFile) -> Encoding | None:
    """The encoding of a file; None for ASCII, which is valid in most encodings."""
    decoder, has_characters, sample = codecs.getincrementaldecoder("utf-8")(), False, b""
    with open_file(file) as stream:
        while block := stream.read(BLOCK):
            if not sample and _is_utf16(block):
                return "utf-16"
            sample = sample or block
            try:
                has_characters = has_characters or not decoder.decode(block).isascii()
            except UnicodeDecodeError as error:
                text = error.object[: error.start].decode()
                if has_characters or not text.removeprefix("\ufeff").isascii():
                    return "utf-8"
                if _is_western(sample + block):
                    return WESTERN
                raise InvalidData(
                    file.name,
                    "encoding",
                    expected="text in UTF-8, or the option `encoding`",
                    received="text in another alphabet and encoding",
                ) from None
    return "utf-8" if has_characters else None


def _is_western(content: bytes) -> bool:
    """Whether few letters are beyond ASCII, and all bytes are characters of Windows-1252."""
    try:
        text = content.decode(WESTERN)
    except UnicodeDecodeError:
        return False
    letters = [letter for letter in text if letter.isalpha() or not letter.isascii()]
    return sum(not letter.isascii() for letter in letters) <= MAX_SHARE * len(letters)
