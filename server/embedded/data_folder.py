"""The data folder of an embedded stack: database, token, logs, connection file and lock."""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from infra.defaults import sqlite_file, sqlite_url
from server.serve import StartFailed


class DataFolder:
    """Paths and small files in one folder; only the owner can read the secret ones."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self.run = self.path / "run"
        self.datasets = self.path / "datasets"
        self.token_file = self.path / "token"
        self.connection_file = self.path / "connection.json"
        self.database_file = sqlite_file(self.path)
        self.database_url = sqlite_url(self.path)

    def create(self) -> None:
        """Create the folder and its subfolders, readable only by their owner. Raises StartFailed.

        Files that an older version left readable for other users become private. If the owner is
        root, other users can still read the data sets, because trainers run as other users.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.logs, self.run, self.datasets):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StartFailed(f"The data folder {self.path} cannot be created: {error}.") from None
        self._close()

    def _close(self) -> None:
        """Remove the permissions of other users; data sets keep theirs."""
        artifacts, scratch = self.path / "artifacts", self.path / "scratch"
        for folder in (self.path, self.logs, self.run, self.datasets, artifacts, scratch):
            _restrict_to_owner(folder)
        for folder in (self.path, self.logs, self.run):
            for file in folder.iterdir():
                if not file.is_dir():
                    _restrict_to_owner(file)
        if os.geteuid() == 0:  # trainers run as other users, and need to pass through
            _allow_others(self.path, stat.S_IXGRP | stat.S_IXOTH)
            _allow_others(self.datasets, 0o055)

    def refuse_if_taken(self) -> None:
        """Raise StartFailed if a server is running in the folder; creates nothing."""
        if (self.run / "lock").exists():
            with self.lock():
                pass

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other servers. Raises StartFailed if one is running in it."""
        with (self.run / "lock").open("a+", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StartFailed(
                    f"Another ampserver (process {file.read().strip() or 'unknown'}) runs in "
                    f"{self.path}; stop it, or choose another folder with --data."
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def token(self) -> str:
        """The secret of the admin token; created at the first start, then always the same."""
        try:
            secret = self.token_file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            secret = ""
        if not secret:
            secret = f"amp_{secrets.token_urlsafe(32)}"
            _write_private(self.token_file, f"{secret}\n")
        self.token_file.chmod(0o600)
        return secret

    def write_connection(self, url: str) -> None:
        """Write the connection file: URL and token for clients on this machine."""
        connection = {"url": url, "token": self.token()}
        _write_private(self.connection_file, json.dumps(connection) + "\n")

    def remove_connection(self) -> None:
        """Delete the connection file."""
        self.connection_file.unlink(missing_ok=True)


def _restrict_to_owner(path: Path) -> None:
    """Keep only the owner's permissions, except for a shared folder such as /tmp."""
    with suppress(OSError):  # it does not exist, or another user owns it
        mode = path.lstat().st_mode
        if mode & 0o077 and not mode & stat.S_ISVTX and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & 0o700)


def _allow_others(path: Path, permissions: int) -> None:
    with suppress(OSError):  # another user owns it
        path.chmod(stat.S_IMODE(path.stat().st_mode) | permissions)


def _write_private(path: Path, text: str) -> None:
    """Atomically write a file that only its owner can read."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    unfinished.replace(path)
