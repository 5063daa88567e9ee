"""Pictures of a tracked run: their limits, and the path under which each is stored."""

import re
from typing import Final

IMAGE_KIND: Final = "image"
"""The kind of their artifacts."""
IMAGES_FOLDER: Final = "images"
IMAGE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
MAX_IMAGE_NAME: Final = 100
MAX_IMAGE_BYTES: Final = 2 * 2**20
MAX_IMAGES: Final = 1000
"""Pictures of a run, of all names and steps."""
SIGNATURES: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg"}
"""How the files begin, and the endings of their names."""
SIGNATURE_BYTES: Final = max(map(len, SIGNATURES))


def image_ending(head: bytes) -> str | None:
    """`png` or `jpg` by the first bytes of a file; None for any other file."""
    return next((ending for start, ending in SIGNATURES.items() if head.startswith(start)), None)


def image_path(name: str, step: int, sha256: str, ending: str) -> str:
    """The path of a picture below the folder of its job; the same picture has the same one."""
    return f"{IMAGES_FOLDER}/{name}/{step}-{sha256[:16]}.{ending}"


def name_of_image(path: str) -> str:
    """The name of the picture that is stored under a path."""
    return path.removeprefix(f"{IMAGES_FOLDER}/").rpartition("/")[0]
