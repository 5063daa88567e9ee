"""Keep a login: a server and its token, in a file that only its owner can read."""

import json
import os
from pathlib import Path
from typing import Final
from uuid import uuid4

from ampclient.connection import Connection

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def store_login(connection: Connection, path: Path) -> None:
    """Write the file; one that was there is replaced. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    document = {"url": connection.url, "token": connection.token}
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    # Made with its mode, not changed to it: it is never there for others to read.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{json.dumps(document)}\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
