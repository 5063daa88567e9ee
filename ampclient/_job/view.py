"""A job as the server returned it: the fields of `ampspec.api`, and properties of them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from pydantic import Field

from ampclient._display import formats, notebook_html
from ampclient.errors import SpecNotLoaded
from ampspec.api.base import AnySource, ApiModel, Number
from ampspec.api.job.jobs import FoldedStudy, JobFields
from ampspec.jobs.states import Source


class JobView(JobFields):
    """The state of a job at the time of the response. Times are in UTC."""

    listed_spec: dict[str, Any] | None = Field(default=None, alias="spec", repr=False)
    """The spec in the response; None in most lists. `spec` is never None."""

    # Servers before 0.6 do not send these.
    resolved_policy: str | None = None
    metrics: dict[str, Number] | None = None
    extends: str | None = None
    explains: str | None = None
    explain_step: int | None = None
    source: AnySource = Source.SUBMITTED
    loss_scale_mode: str | None = None
    examples_per_step: int | None = None

    study: FoldedStudy | None = None
    """In a list with `fold_studies`: the study for whose jobs this one stands."""

    @property
    def note(self) -> str | None:
        """A note with the fields that the server could not read; None if there are none."""
        return f"unreadable: {', '.join(self.unreadable)}" if self.unreadable else None

    @property
    def state_text(self) -> str:
        """The state, with what a job does other than training, and a mark for a tracked run."""
        if self.uploading is not None:
            sent, size = self.uploading.sent_bytes, self.uploading.size_bytes
            share = f" {100 * sent / size:.0f} %" if size else ""
            return f"{self.state}, uploading{share}"
        if self.activity not in (None, self.state, "training"):
            return f"{self.state}, {self.activity}"
        return f"{self.state}, tracked" if self.source == Source.TRACKED else str(self.state)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The normalised spec. Lists contain it only if `fields` asks for it."""
        return self._missing_spec() if self.listed_spec is None else self.listed_spec

    def _missing_spec(self) -> dict[str, Any]:
        raise SpecNotLoaded(
            "Listed jobs carry no spec. Use jobs.list(fields='spec'), or job.refresh() for this "
            "job."
        )

    @property
    def policy_text(self) -> str:
        """The policy in the spec, and the one that it trains with if that is another one."""
        chosen = (self.summary.policy if self.summary else None) or self.resolved_policy
        return self.policy if chosen in (None, self.policy) else f"{self.policy} ({chosen})"

    @property
    def skipped(self) -> int:
        """Steps skipped so far."""
        figures = self.summary or self.latest
        return (figures.skipped or 0) if figures is not None else 0

    @property
    def examples_per_s(self) -> float | None:
        """Median throughput of all steps so far; before it is known, that of the last block."""
        if self.summary is not None and self.summary.median_examples_per_s is not None:
            return self.summary.median_examples_per_s
        return self.latest.examples_per_s if self.latest is not None else None

    _html_head_: ClassVar = (
        *("name", "id", "state", "policy", "model", "step", "loss", "loss scale", "skipped"),
        *("validation", "examples/s", "message"),
    )

    def _html_row_(self) -> Sequence[object]:
        latest = self.latest
        return (
            *(self.name, self.id, self.state_text, self.policy_text, self.model),
            formats.steps(self.step, self.total_steps),
            formats.number(latest.loss if latest else None),
            formats.loss_scale(latest.loss_scale if latest else None),
            self.skipped,
            formats.metrics(self.metrics or {}),
            formats.rate(self.examples_per_s),
            self.note or self.message or self.waiting,
        )

    def _repr_html_(self) -> str:
        """The row of the job in a list, as a table of two columns."""
        pairs = zip(self._html_head_, self._html_row_(), strict=True)
        return notebook_html.fields_table(pairs)


class SubmittedJobViews(ApiModel):
    """The jobs that were submitted together."""

    items: list[JobView]


class JobViewPage(ApiModel):
    """One page of a list of jobs, and the cursor of the next page."""

    items: list[JobView]
    next_cursor: str | None
