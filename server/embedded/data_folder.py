"""The folder of one embedded stack: its database, its token, its logs, and who runs in it."""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from server.serving.serve import StartFailed
from server.settings import sqlite_url


class DataFolder:
    """Paths and small files under one folder; only its owner can read what is secret."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self.run = self.path / "run"
        self.datasets = self.path / "datasets"
        self.token_file = self.path / "token"
        self.connection_file = self.path / "connection.json"
        self.database_url = sqlite_url(self.path)

    def create(self) -> None:
        """Make the folder and those in it, for their owner alone. Raises StartFailed.

        What an older version left for others to read is closed to them. Where the owner is root,
        others can read the data sets, and go through the folder to them.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.logs, self.run, self.datasets):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StartFailed(f"The data folder {self.path} cannot be made: {error}.") from None
        self._close()

    def _close(self) -> None:
        """Take the permissions of others away; the data sets inside stay as they are."""
        artifacts, scratch = self.path / "artifacts", self.path / "scratch"
        for folder in (self.path, self.logs, self.run, self.datasets, artifacts, scratch):
            _take_from_others(folder)
        for folder in (self.path, self.logs, self.run):
            for file in folder.iterdir():
                if not file.is_dir():
                    _take_from_others(file)
        if os.geteuid() == 0:  # trainers have users of their own, and come through here
            _let_others(self.path, stat.S_IXGRP | stat.S_IXOTH)
            _let_others(self.datasets, 0o055)

    def refuse_if_taken(self) -> None:
        """Raises StartFailed when a server runs in the folder; makes nothing."""
        if (self.run / "lock").exists():
            with self.lock():
                pass

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other servers out of the folder. Raises StartFailed when one is in it."""
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
        """The secret that opens this server; made the first time, then always the same."""
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
        """Tell clients on this machine where the server is and what opens it."""
        connection = {"url": url, "token": self.token()}
        _write_private(self.connection_file, json.dumps(connection) + "\n")

    def forget_connection(self) -> None:
        """Nobody answers there any more."""
        self.connection_file.unlink(missing_ok=True)


def _take_from_others(path: Path) -> None:
    """Leave only the owner's permissions; a folder for everybody, as /tmp is, stays one."""
    with suppress(OSError):  # it is not there, or somebody else's
        mode = path.lstat().st_mode
        if mode & 0o077 and not mode & stat.S_ISVTX and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & 0o700)


def _let_others(path: Path, permissions: int) -> None:
    with suppress(OSError):  # it is somebody else's
        path.chmod(stat.S_IMODE(path.stat().st_mode) | permissions)


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads; whoever looks finds all of it or none."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    unfinished.replace(path)
