"""The retention runner: a background thread that applies retention rules and empties the trash."""

import logging
from typing import Final

from server.background.periodic_thread import FailureLog, PeriodicThread
from store import leaders
from store.database import Database
from store.jobs import trash
from store.retention import deletion, rules

log = logging.getLogger(__name__)

INTERVAL_S: Final = 5.0
BATCH: Final = 100
"""Jobs of one round; each is deleted in a transaction of its own."""


class RetentionRunner:
    """A thread that deletes what is due for all servers while its server leads.

    Args:
        database: Of the jobs.
        server_id: The name of this server among all.
        trash_s: How long what the rules delete can be restored, in seconds.
        every_s: The pause between two rounds, in seconds.
    """

    def __init__(
        self,
        database: Database,
        server_id: str,
        *,
        trash_s: float,
        every_s: float = INTERVAL_S,
    ) -> None:
        self._database, self._server_id, self._trash_s = database, server_id, trash_s
        self._thread = PeriodicThread("retention-runner", self._round, every_s)
        self._failures = FailureLog(log)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the job that is being deleted."""
        self._thread.stop()

    def empty_trash(self) -> bool:
        """Delete the jobs whose time in the trash is over; whether more may be due."""
        with self._database.write() as session:
            trash.take_out_unfinished(session)
        with self._database.read() as session:
            job_ids = trash.due(session, BATCH)
        for job_id in job_ids:
            if self._thread.is_stopping:
                return False
            with self._database.write() as session:
                is_purged = trash.purge(session, job_id)
            if is_purged:
                log.info("job %s was deleted from the trash", job_id)
        return len(job_ids) == BATCH

    def apply_rules(self) -> bool:
        """Delete a batch for each rule of the projects whose turn it is; whether more is left."""
        with self._database.read() as session:
            projects = rules.due(session)
        unfinished = [project for project in projects if self._apply_rules_of(project)]
        return bool(unfinished)

    def _apply_rules_of(self, project: str) -> bool:
        with self._database.read() as session:
            project_rules = rules.parsed(rules.get(session, project))
        has_more = False
        for rule in project_rules:
            if self._thread.is_stopping:
                return False
            with self._database.write() as session:
                has_more |= deletion.apply(session, project, rule, trash_s=self._trash_s)
        if not has_more:
            with self._database.write() as session:
                rules.mark_applied(session, project)
        return has_more

    def _round(self) -> bool:
        if not self._failures.attempt("choosing the server that leads", self._leads):
            return False
        has_more_rules = self._failures.attempt("applying retention rules", self.apply_rules)
        has_more_trash = self._failures.attempt("emptying the trash", self.empty_trash)
        return has_more_rules or has_more_trash

    def _leads(self) -> bool:
        return leaders.leads(self._database, leaders.BACKGROUND, self._server_id)
