"""A folder that keeps a run until the server has stored it, also when the program ends."""

import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self
from uuid import uuid4

from ampclient.errors import RunFolderUnusable
from ampclient.tracking.entries import LoggedSteps

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two programs out of one folder
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

RUN_FILE: Final = "run.json"
ENTRIES_FILE: Final = "entries.jsonl"
END_FILE: Final = "end.json"
LOCK_FILE: Final = "lock"
FORMAT: Final = 1
SUCCEEDED: Final = "succeeded"
Resume = bool | Literal["must"]


@dataclass(frozen=True)
class RunRecord:
    """What `run.json` has.

    Attributes:
        server: The address of the server.
        spec: The fields of TrackedSpec.
        idempotency_key: Of the request that creates the run, so that it is created once.
        run_id: None before it is created.
        total_steps: The expected number of rows; None if it is unknown.
        line: A line of the file of entries, counted from 0 …
        entry: … and the number that the server gives its entry. Those after it follow one another.
        first_step: The first step, once the run has ended; None without one.
        next_step: The step after the last one, once the run has ended.
        ended: `succeeded`, `failed` or `cancelled` once the server has everything.
        format: The version of these files.
    """

    server: str
    spec: Mapping[str, Any]
    idempotency_key: str = field(default_factory=lambda: str(uuid4()))
    run_id: str | None = None
    total_steps: int | None = None
    line: int = 0
    entry: int = 0
    first_step: int | None = None
    next_step: int = 0
    ended: str | None = None
    format: int = FORMAT


class RunFolder:
    """The files of one run, which one program at a time may use. Close it to let others use it.

    Args:
        path: The folder.
        record: What `run.json` has.
        lock: The open file that keeps others out.
    """

    def __init__(self, path: Path, record: RunRecord, lock: int) -> None:
        self.path, self.record = path, record
        self._lock, self._changing = lock, threading.Lock()

    @classmethod
    def begin(cls, path: Path, server: str, spec: Mapping[str, Any], *, resume: Resume) -> Self:
        """The folder of a new run, or of the one that it has.

        Args:
            path: The folder; it is created if it does not exist.
            server: The address of the server.
            spec: The fields of TrackedSpec.
            resume: Continue the run that it has, unless that has succeeded; `must`: raise an error
                if it has none to continue.

        Raises:
            RunFolderUnusable: It has a run that is not complete, or of another server; or another
                program uses it; or it has no run that must be continued.
        """
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path)
        try:
            earlier = _read_record(path)
            if earlier is not None and resume and earlier.ended != SUCCEEDED:
                return cls._continued(path, earlier, server, lock)
            if resume == "must":
                has = "no run" if earlier is None else f"the run {earlier.run_id}, which succeeded"
                raise RunFolderUnusable(
                    f"expected a run to continue in {path}, because of resume='must'; it has {has}"
                )
            if earlier is not None and earlier.ended is None:
                raise RunFolderUnusable(
                    f"{path} has a run that is not complete on the server. Continue it with "
                    f"resume=True, send it with `ampctl run sync {path}`, or take another folder."
                )
            folder = cls(path, RunRecord(server, spec), lock)
            folder._delete_entries()
            folder.write(folder.record)
        except BaseException:
            os.close(lock)
            raise
        return folder

    @classmethod
    def _continued(cls, path: Path, record: RunRecord, server: str, lock: int) -> Self:
        folder = cls(path, record, lock)
        folder.check_server(server)
        folder.write_end(None)
        folder.change(server=server, ended=None)
        return folder

    def check_server(self, server: str) -> None:
        """Raise RunFolderUnusable if the run was created on another server."""
        if self.record.run_id is not None and self.record.server != server:
            raise RunFolderUnusable(
                f"{self.path} has the run {self.record.run_id} of {self.record.server}; this "
                f"client is connected to {server}. If both are the same server, write the new "
                f"address into {RUN_FILE}."
            )

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of an earlier run. Raises RunFolderUnusable."""
        if not path.is_dir() or _read_record(path) is None:
            raise RunFolderUnusable(f"{path} is no folder of a run: it has no {RUN_FILE}.")
        lock = _lock(path)
        record = _read_record(path)  # again: a program that has ended meanwhile may have changed it
        if record is None:
            os.close(lock)
            raise RunFolderUnusable(f"{path}/{RUN_FILE} has been deleted.")
        return cls(path, record, lock)

    @property
    def entries_file(self) -> Path:
        """The entries, one in each line."""
        return self.path / ENTRIES_FILE

    def write(self, record: RunRecord) -> None:
        """Replace `run.json`."""
        _replace(self.path / RUN_FILE, asdict(record))
        self.record = record

    def change(self, **values: Any) -> None:
        """Change fields of `run.json`, from any thread; a full disk does not end the program."""
        with self._changing:
            self.record = replace(self.record, **values)
            try:
                self.write(self.record)
            except OSError as error:
                log.warning("cannot write %s: %s", self.path / RUN_FILE, error)

    @property
    def end(self) -> Mapping[str, Any] | None:
        """How the program has ended the run; None if it has not."""
        try:
            document: Mapping[str, Any] = json.loads((self.path / END_FILE).read_text())
        except FileNotFoundError:
            return None
        return document

    def write_end(self, end: Mapping[str, Any] | None) -> None:
        """Keep how the program has ended the run; None: it has not."""
        if end is None:
            (self.path / END_FILE).unlink(missing_ok=True)
        else:
            _replace(self.path / END_FILE, end)

    def complete(self, state: str, *, entries: int = 0, steps: LoggedSteps | None = None) -> None:
        """Delete what the server has now: everything but `run.json`.

        Args:
            state: In which the run has ended.
            entries: How many entries the server has.
            steps: The steps of the run.
        """
        steps = steps or LoggedSteps()
        numbers = {"entry": entries, "first_step": steps.first, "next_step": steps.end}
        self.change(ended=state, line=0, **numbers)
        self._delete_entries()

    def forget(self) -> None:
        """Delete the files of a run that the server has refused before it had an entry."""
        self._delete_entries()
        (self.path / RUN_FILE).unlink(missing_ok=True)

    def close(self) -> None:
        """Let other programs use the folder."""
        with suppress(OSError):
            os.close(self._lock)

    def _delete_entries(self) -> None:
        for name in (ENTRIES_FILE, END_FILE):
            (self.path / name).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()


def _lock(path: Path) -> int:
    file = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise RunFolderUnusable(
                f"{path} is used by another program, which still runs."
            ) from None
    return file


def _read_record(path: Path) -> RunRecord | None:
    try:
        document = json.loads((path / RUN_FILE).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunFolderUnusable(f"{path}/{RUN_FILE} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        received = document.get("format") if isinstance(document, dict) else document
        raise RunFolderUnusable(
            f"{path}/{RUN_FILE} is of another version: expected format {FORMAT}, received "
            f"{received!r}."
        )
    try:
        return RunRecord(**document)
    except TypeError as error:
        raise RunFolderUnusable(f"{path}/{RUN_FILE} is damaged: {error}") from error


def _replace(file: Path, document: Mapping[str, Any]) -> None:
    temporary_file = file.with_suffix(".new")
    temporary_file.write_text(json.dumps(document))
    temporary_file.replace(file)
