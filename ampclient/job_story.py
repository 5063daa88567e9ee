"""The story of a job: its steps, or everything about it, from the beginning on and live."""

from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ampclient import calls
from ampclient.faces import series
from ampclient.job_steps import JobSteps
from ampclient.story import StoryReader

if TYPE_CHECKING:
    from ampclient.story import Entry
    from ampclient.told import StepsTold


@dataclass(frozen=True, kw_only=True)
class JobStory(JobSteps):
    """A view of a job, which can be followed from there."""

    @series
    def stream(
        self, *, after: int = 0, columns: Sequence[str] | None = None
    ) -> AsyncGenerator["StepsTold", None]:
        """The steps as they were told and are being told, until the job has ended.

        History, then live; each block once, over cut connections and a server that restarts. A
        step that a later attempt does again comes again: `block.attempt` says whose it is. Who
        stopped goes on behind `after`, the `seq` of the last block. Only `columns`, if they are
        given, and `skipped`. Raises NotFound for a job that is deleted meanwhile.
        """
        wanted = calls.Story(("steps",), columns)
        return StoryReader(self._transport, self.id, wanted, after).steps()

    @series
    def follow(
        self,
        *,
        kinds: Collection[str] = calls.STORY_KINDS,
        after: int = 0,
        columns: Sequence[str] | None = None,
    ) -> AsyncGenerator["Entry", None]:
        """Everything that is told of the job, in order, until it has ended; else as `stream`.

        Of the `kinds` steps (blocks as `stream` gives them), events (a JobEvent each; that of a
        change of state has the type "state") and logs (a LogEntry each). Every entry has its
        `seq` and its `attempt`.
        """
        wanted = calls.Story(tuple(kinds), columns)
        return StoryReader(self._transport, self.id, wanted, after).read()
