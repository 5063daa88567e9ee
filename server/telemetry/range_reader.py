"""Read the range samples of a job from its rows."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy.orm import Session

from ampspec.telemetry.events import EventType
from store.telemetry import events, ranges

if TYPE_CHECKING:  # it loads NumPy, which most requests do not need
    from ampspec.telemetry.ranges.range_samples import RangeSample

log = logging.getLogger(__name__)

MAX_OVERFLOWS: Final = 1000
MAX_SEQ: Final = 2**53


def read_samples(session: Session, job_id: str, steps: Sequence[int]) -> "list[RangeSample]":
    """The samples of these steps, without those that are not of the form of a sample."""
    from ampspec.telemetry.ranges.range_samples import RangeSample

    samples = []
    for step, data in ranges.read(session, job_id, steps):
        try:
            samples.append(RangeSample.from_untrusted(step, data))
        except ValueError as error:
            log.warning("skipping the range sample of step %d: %s", step, error)
    return samples


def read_finite_below(
    session: Session, job_id: str, samples: "Sequence[RangeSample]"
) -> dict[str, float]:
    """By network, the largest loss scale at which every skipped step would have been finite.

    Of the last MAX_OVERFLOWS steps that were skipped; empty without samples of the networks.
    """
    if not samples:
        return {}
    from ampspec.telemetry.ranges.scale_advice import finite_below

    last = events.read(
        session, job_id, limit=MAX_OVERFLOWS, before_seq=MAX_SEQ, types=[EventType.OVERFLOW]
    )
    return finite_below((event.data for event in last), samples[-1].scales)


def evenly_spaced(steps: Sequence[int], max_steps: int) -> list[int]:
    """At most `max_steps` of the steps, always with the last one."""
    stride = -(-len(steps) // max_steps) or 1
    return list(steps[::-1][::stride][::-1])
