"""The entries of a run in a file: in order, and as many as the disk takes."""

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from ampclient.errors import RunFolderUnusable
from ampclient.tracking.entries import LoggedSteps, PendingEntry
from ampclient.tracking.outbox import Batch, DroppedEntries
from ampclient.tracking.run_folder import RunFolder
from ampspec.api.runs import RunStatus

log = logging.getLogger(__name__)


class FileOutbox:
    """Writes entries to the file of a folder, and reads those that the server lacks from it.

    It takes the place of an `Outbox`. What is written survives the program, but not always a
    machine that loses its power: nothing waits for the disk.

    Args:
        folder: Of the run; it may have entries of an earlier program.

    Raises:
        RunFolderUnusable: The file is damaged.
    """

    drop_reason: Final = "the folder of the run could not be written"

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._path = folder, folder.entries_file
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._file = self._path.open("ab", buffering=0)
        self._first_line, self._first_offset = 0, 0
        """The first line that the server lacks, and where it begins."""
        self._lines = self._size = 0
        self.steps = LoggedSteps(folder.record.first_step, folder.record.next_step)
        """The steps of the run, as far as the folder knows."""
        try:
            self._count_lines()
        except BaseException:
            self._file.close()
            raise
        self._batch: list[PendingEntry] = []
        self._batch_end = 0
        self._dropped, self._refused = DroppedEntries(), DroppedEntries()
        self.dropped_steps = self.dropped_others = 0
        self._has_warned = False

    def __len__(self) -> int:
        return self._lines - self._first_line

    def logged_steps(self, status: RunStatus | None) -> LoggedSteps:
        """The steps of earlier programs: the server's, if it has more entries than the folder."""
        record = self._folder.record
        if status is not None and status.entries > record.entry + self._lines - record.line:
            return LoggedSteps(status.first_step, status.step)
        return self.steps

    def put(self, entry: PendingEntry) -> bool:
        """Append an entry; False if it could not be written."""
        if os.getpid() != self._pid:
            return True  # a fork: its parent writes the file
        fields = [entry.size_bytes, entry.first_step, entry.steps, entry.end_step, entry.document]
        line = json.dumps(fields).encode() + b"\n"
        with self._lock:
            try:
                if self._file.write(line) != len(line):
                    raise OSError("it is full")
            except (OSError, ValueError) as error:  # ValueError: it is closed
                self._warn_and_repair(error)
                self._count(entry, self._dropped)
                return False
            self._lines, self._size = self._lines + 1, self._size + len(line)
            self.steps = self.steps.with_entry(entry)
            return True

    def align(self, entries: int) -> None:
        """Continue with the entry of this number: the server has those before it, and no other.

        It may have lost some, or got more from an earlier program than that program has noted.
        """
        record = self._folder.record
        with self._lock:
            line = record.line + entries - record.entry
            if not record.line <= line <= self._lines:
                line = max(self._first_line, record.line)
                log.warning(
                    "the server has %d entries of the run, and %s at most %d: another program has "
                    "sent some, or the server has lost some; what it has already it will refuse",
                    *(entries, self._path, record.entry + self._lines - record.line),
                )
                self._folder.change(line=line, entry=entries)
            self._batch = []
            self._first_line, self._first_offset = line, self._offset_of(line)

    def take_batch(self) -> list[PendingEntry]:
        """The entries of the next upload: those that were taken before, or the oldest ones."""
        with self._lock:
            if not self._batch:
                batch, self._batch_end = Batch(), self._first_offset
                for end, entry in self._read_entries(self._first_offset):
                    if not batch.add(entry):
                        break
                    self._batch_end = end
                self._batch = batch.entries
            return list(self._batch)

    def confirm_batch(self) -> None:
        """Go on after the batch that was taken."""
        with self._lock:
            self._remove_batch()

    def refuse_batch(self) -> None:
        """Go on after the batch that was taken, because the server will never accept it."""
        record = self._folder.record
        with self._lock:
            entry = record.entry + self._first_line - record.line
            for refused_entry in self._batch:
                self._count(refused_entry, self._refused)
            self._remove_batch()
            self._folder.change(line=self._first_line, entry=entry)

    def refuse(self, entry: PendingEntry) -> None:
        """Count an entry that is not sent, because the server will never accept it."""
        with self._lock:
            self._count(entry, self._refused)

    def take_dropped(self) -> DroppedEntries:
        """What could not be written since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, DroppedEntries()
            return dropped

    def take_refused(self) -> DroppedEntries:
        """What was refused since the last call."""
        with self._lock:
            refused, self._refused = self._refused, DroppedEntries()
            return refused

    def discard(self) -> None:
        """Nothing can be sent any more: the file keeps it for a later program."""

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _remove_batch(self) -> None:
        self._first_line += len(self._batch)
        self._first_offset = self._batch_end
        self._batch = []

    def _count(self, entry: PendingEntry, dropped: DroppedEntries) -> None:
        dropped.add(entry)
        self.dropped_steps += entry.steps
        self.dropped_others += entry.first_step is None

    def _warn_and_repair(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("cannot write %s, so entries are lost: %s", self._path, error)
        with suppress(OSError, ValueError):
            os.ftruncate(self._file.fileno(), self._size)  # without a part of the line

    def _count_lines(self) -> None:
        """Count the lines of an earlier program, and remove the part of one that it wrote last."""
        for end, entry in self._read_entries(0):
            self._lines, self._size = self._lines + 1, end
            self.steps = self.steps.with_entry(entry)
        os.ftruncate(self._file.fileno(), self._size)

    def _offset_of(self, line: int) -> int:
        with self._path.open("rb") as file:
            return sum(len(text) for _, text in zip(range(line), file, strict=False))

    def _read_entries(self, offset: int) -> Iterator[tuple[int, PendingEntry]]:
        """The entries from an offset on, each with the offset after it."""
        with self._path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                try:
                    fields: list[Any] = json.loads(line)
                    size_bytes, first_step, steps, end_step, document = fields
                except (ValueError, TypeError) as error:
                    text = f"{self._path} is damaged before byte {offset}: {error}"
                    raise RunFolderUnusable(text) from error
                yield offset, PendingEntry(document, size_bytes, first_step, steps, end_step)
