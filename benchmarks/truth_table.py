"""How true the answers are: faults with known answers are planted, and ampcore is asked.

Prints a JSON line for each fault, and one with the shares of right answers, of "cannot tell" and of
wrong ones. It takes about an hour on two cores; `--only` and `--seeds` make it shorter.
"""

import argparse
import importlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from compare import report
from truth.case import Outcome, PlantedFault, Question, Verdict

MODULES: Final = ("steps", "ends", "layers", "policies", "limits")
GOAL_WRONG: Final = 0.02
GOAL_RIGHT: Final = 0.85


def planted_faults(only: str = "", *, quick: bool = False) -> Iterator[PlantedFault]:
    """The faults whose question and name contain a pattern.

    Args:
        only: A regular expression.
        quick: Only those of the sample in the tests.
    """
    for module in MODULES:
        for fault in importlib.import_module(f"truth.{module}").FAULTS:
            if re.search(only, f"{fault.question} {fault.name}") and (fault.is_quick or not quick):
                yield fault


def outcomes(fault: PlantedFault, seeds: int) -> list[Outcome]:
    """The answers with each seed; an exception is a wrong answer."""
    answers = []
    for seed in range(seeds):
        try:
            answers.append(fault.ask(seed))
        except Exception as error:
            answers.append(Outcome(Verdict.WRONG, f"{type(error).__name__}: {error}"[:300]))
    return answers


def main() -> None:
    """Ask, judge, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of question and name")
    parser.add_argument("--seeds", type=int, default=5, help="of each fault (default: 5)")
    parser.add_argument("--quick", action="store_true", help="the sample of the tests")
    arguments = parser.parse_args()
    totals: Counter[Verdict] = Counter()
    by_question: dict[Question, Counter[Verdict]] = {}
    for fault in planted_faults(arguments.only, quick=arguments.quick):
        began = time.perf_counter()
        answers = outcomes(fault, arguments.seeds)
        counts = Counter(answer.verdict for answer in answers)
        totals += counts
        by_question.setdefault(fault.question, Counter()).update(counts)
        report(
            "truth_table",
            question=fault.question,
            fault=fault.name,
            expected=fault.expected,
            **{verdict.name.lower(): counts[verdict] for verdict in Verdict},
            seconds=round(time.perf_counter() - began, 1),
            others=sorted(
                {answer.answer for answer in answers if answer.verdict is not Verdict.RIGHT}
            ),
        )
    count = max(totals.total(), 1)
    report(
        "truth_table_total",
        goal_wrong=GOAL_WRONG,
        goal_right=GOAL_RIGHT,
        answers=totals.total(),
        **{verdict.name.lower(): round(totals[verdict] / count, 4) for verdict in Verdict},
        by_question={
            question: {verdict.name.lower(): counts[verdict] for verdict in Verdict}
            for question, counts in by_question.items()
        },
    )


if __name__ == "__main__":
    main()
