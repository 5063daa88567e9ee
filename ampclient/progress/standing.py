"""What is to be shown of a job: the view, and what was made out while it was watched."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ampclient import formats
from ampclient.progress.pace import Pace
from ampclient.views import JobView
from ampcore.spec import State

FirstStep = Callable[[JobView], int | None]
"""Where the present attempt at a job began; None where nobody can tell."""


def unknown(job: JobView) -> int | None:
    """Knows of no attempt."""
    return None


@dataclass(frozen=True)
class Standing:
    """A job as it stands: seconds to its end, and where its present attempt began."""

    job: JobView
    remaining_s: float | None = None
    first_step: int | None = None
    alias: str | None = None

    @property
    def name(self) -> str:
        """What it is called among those that are watched."""
        return formats.printable(self.alias or self.job.name)

    @property
    def attempt(self) -> str | None:
        """A word on an attempt that is not the first one, while a worker has the job."""
        if self.job.attempt < 2 or not self.job.state.is_active:
            return None
        if self.first_step is None:
            return f"attempt {self.job.attempt}"
        began = f"resumed at step {self.first_step}" if self.first_step else "from the beginning"
        return f"attempt {self.job.attempt}, {began}"

    @property
    def waits_for(self) -> str | None:
        """Why it does not move."""
        match self.job.state:
            case State.QUEUED:
                return formats.printable(self.job.waiting or "waiting for a free worker")
            case State.PAUSED if not self.job.message:
                return "waiting to be resumed"
        return None


def names_apart(jobs: Sequence[JobView]) -> dict[str, str]:
    """By id a name for each of several jobs, without the words with which all of them begin.

    Jobs of the same name are told apart by their ids.
    """
    words = [job.name.split() for job in jobs]
    same = 0
    while len(jobs) > 1 and all(len(w) > same + 1 and w[same] == words[0][same] for w in words):
        same += 1
    names = {job.id: " ".join(w[same:]) for job, w in zip(jobs, words, strict=True)}
    found = list(names.values())
    return {id_: f"{name} {id_}" if found.count(name) > 1 else name for id_, name in names.items()}


class Watched:
    """The jobs that are watched."""

    def __init__(self, first_step_of: FirstStep, names: Mapping[str, str]) -> None:
        self._first_step_of = first_step_of
        self._names = names
        self._first_steps: dict[tuple[str, int], int | None] = {}
        self._paces: dict[str, Pace] = {}

    def see(self, job: JobView) -> Standing:
        """How a job stands, out of this view and those before it."""
        pace = self._paces.setdefault(job.id, Pace())
        pace.see(job)
        alias = self._names.get(job.id)
        return Standing(job, pace.remaining_s(job), self._first_step(job), alias)

    def _first_step(self, job: JobView) -> int | None:
        """Asked for once an attempt, when it trains."""
        key = (job.id, job.attempt)
        if job.attempt > 1 and job.state is State.RUNNING and key not in self._first_steps:
            self._first_steps[key] = self._first_step_of(job)
        return self._first_steps.get(key)
