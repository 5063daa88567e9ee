"""A planted fault, and how right the answer to a question about it is."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How an answer compares with what was planted."""

    RIGHT = "right"
    CANNOT_TELL = "cannot tell"
    """The answer says that it is not sure; it misleads nobody."""
    WRONG = "wrong"


class Question(StrEnum):
    """What a person asks about a run."""

    EXPLAIN = "explain"
    """Why did this step go wrong?"""
    EVENTS = "events"
    """What do the events of the run say, and does the run end as its result deserves?"""
    PRECISION = "precision"
    """Is this policy as good as float32?"""
    CAPACITY = "capacity"
    """Which batch size fits?"""
    RANGES = "ranges"
    """Which layers leave the range of float16?"""


@dataclass(frozen=True)
class Outcome:
    """The answer to one question, with one seed."""

    verdict: Verdict
    answer: str
    """What ampcore said, in a line."""


@dataclass(frozen=True)
class PlantedFault:
    """A fault in a model, its data or its settings, with the answer that is right.

    Args:
        name: What is planted, as a row of the table: "NaN in one example, float16".
        question: The question that is asked.
        expected: The right answer, in words.
        ask: Plants it, trains, asks, and judges the answer; called with a seed.
        is_quick: Belongs to the sample that the slow tier of the tests runs.
    """

    name: str
    question: Question
    expected: str
    ask: Callable[[int], Outcome]
    is_quick: bool = False
