"""Which tests `make test` runs, and what each test costs.

A test is slow, and runs in `make test-slow`, if it needs a browser, a container, helm or a whole
stack (`SLOW_FOLDERS`) or shares a launch of several ranks (`SLOW_FILES`), or if all of its cases
together cost too much of `make test`: those are in `costly_tests.txt`, or have the mark `slow`. The
cheapest test of each promise in `docs/reliability.md` is quick, whatever it costs; in a slow folder
it has the mark `quick`, and so has one job from end to end.

`--times FILE` writes what each test took. `python -m tests.tiers FILE…` checks the rule;
`python -m tests.tiers --write FILE…` writes `costly_tests.txt` from the times of both tiers.
"""

import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
SLOW_FOLDERS: Final = tuple(
    ROOT / "tests" / name for name in ("chaos", "containers", "deploy", "e2e")
)
SLOW_FILES: Final = tuple(
    ROOT / "tests" / "ampcore" / "distributed" / name
    for name in ("test_ranks.py", "test_sharded_ranks.py")
)
"""All tests of a file share one launch of two ranks, which no single test shows the cost of."""
COSTLY_TESTS: Final = ROOT / "tests" / "costly_tests.txt"
SHARE: Final = 1 / 1500
"""A test that takes a larger share of the processor time of `make test` is put into the file."""
MAX_SHARE: Final = 1 / 100
"""From this share on it must be there. What the first test of a process starts for all counts to
it, and two measurements of one test differ."""
RELIABILITY: Final = ROOT / "docs" / "reliability.md"
TEST: Final = re.compile(r"tests/[a-z_/0-9]*\.py::[a-z_0-9]*")
PROCESSOR_S: Final = "processor_s"


class Cost(NamedTuple):
    """What a test took, with the fixtures that were made for it."""

    test: str
    mark: str
    """`slow`, `quick` or none."""
    wall_s: float
    processor_s: float
    """Of its process, and of the child processes that ended during the test."""


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Give the mark `slow` to slow tests, except those with the mark `quick`."""
    for item in items:
        is_slow = test_of(item.nodeid) in costly_tests() or is_in_slow_place(item.path)
        if is_slow and item.get_closest_marker("quick") is None:
            item.add_marker(pytest.mark.slow)


@cache
def is_in_slow_place(path: Path) -> bool:
    """Whether all tests of a file are slow, but those with the mark `quick`."""
    return path in SLOW_FILES or any(folder in path.parents for folder in SLOW_FOLDERS)


def test_of(node_id: str) -> str:
    """The test that a case belongs to: without its parameters, and the group of its process."""
    return node_id.partition("[")[0].partition("@")[0]


@cache
def costly_tests() -> frozenset[str]:
    """The tests in `costly_tests.txt`."""
    return frozenset(COSTLY_TESTS.read_text(encoding="utf-8").split())


def promises() -> list[str]:
    """The rows and paragraphs of docs/reliability.md that name tests; those in containers aside."""
    text = RELIABILITY.read_text(encoding="utf-8").partition("\n## In containers\n")[0]
    return [row for row in re.split(r"\n\n|\n(?=\|)", text) if TEST.search(row)]


def processor_s() -> float:
    """The processor time of this process and of its children that have ended, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class CostRecorder:
    """A plugin that writes the time of each test to a file at the end."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._started_s = 0.0
        self._costs: dict[str, Cost] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, nextitem: pytest.Item | None) -> Iterator[None]:
        """Measure a test in the process that runs it."""
        self._started_s = processor_s()
        self._is_last = nextitem is None
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        """Send the processor time with the report of each phase."""
        report: Any = yield
        # The last teardown of a process ends what all of its tests have shared.
        if not (call.when == "teardown" and self._is_last):
            used_s = processor_s() - self._started_s
            report.user_properties = [*report.user_properties, (PROCESSOR_S, used_s)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase to the time of its test, in the process that has the file."""
        seen = self._costs.get(report.nodeid, Cost(report.nodeid, "", 0, 0))
        used_s = dict(report.user_properties).get(PROCESSOR_S, seen.processor_s)
        mark = next((mark for mark in ("slow", "quick") if mark in report.keywords), "")
        wall_s = seen.wall_s + report.duration
        self._costs[report.nodeid] = Cost(report.nodeid, mark, wall_s, float(str(used_s)))

    def pytest_unconfigure(self) -> None:
        """Write the file."""
        if self._file is not None:
            lines = [json.dumps(cost._asdict()) for cost in self._costs.values()]
            self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_costs(file: Path) -> list[Cost]:
    """The costs of the tests in a file."""
    return [Cost(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def misplaced(costs: Collection[Cost]) -> Counter[str]:
    """The quick tests, without the mark, that take too large a share of `make test`: their cost.

    The cheapest test of each promise is left out: it is quick, whatever it costs.
    """
    quick_costs = [cost for cost in costs if cost.mark != "slow"]
    limit_s = MAX_SHARE * sum(cost.processor_s for cost in quick_costs)
    totals = _totals(cost for cost in quick_costs if not cost.mark)
    for test in _cheapest_of_promises(totals):
        del totals[test]
    return Counter({test: used_s for test, used_s in totals.items() if used_s > limit_s})


def expensive(costs: Collection[Cost]) -> list[str]:
    """The tests that belong into `costly_tests.txt`, by the costs of both tiers.

    Without them, none of the others takes more than its share.
    """
    listed = costly_tests()
    totals = _totals(cost for cost in costs if not cost.mark or test_of(cost.test) in listed)
    marked_s = sum(cost.processor_s for cost in costs if cost.mark == "quick")
    for test in _cheapest_of_promises(totals):
        marked_s += totals.pop(test)
    costly: list[str] = []
    while True:
        limit_s = SHARE * (marked_s + totals.total())
        above = [test for test, used_s in totals.items() if used_s > limit_s]
        if not above:
            return sorted(costly)
        costly += above
        for test in above:
            del totals[test]


def _cheapest_of_promises(totals: Counter[str]) -> set[str]:
    """The cheapest test of each promise, of those that have a cost."""
    named_tests = ([test for test in TEST.findall(row) if test in totals] for row in promises())
    return {min(tests, key=totals.__getitem__) for tests in named_tests if tests}


def _totals(costs: Iterable[Cost]) -> Counter[str]:
    """The processor time of each test, all of its cases together."""
    totals: Counter[str] = Counter()
    for cost in costs:
        totals[test_of(cost.test)] += cost.processor_s  # type: ignore[assignment]  # seconds
    return totals


def main(arguments: list[str]) -> int:
    """Print the cost of each tier and the tests that belong into the other one."""
    files = [argument for argument in arguments if argument != "--write"]
    costs = [cost for file in files for cost in read_costs(Path(file))]
    if "--write" in arguments:
        tests = expensive(costs)
        COSTLY_TESTS.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
        print(f"{len(tests)} tests in {COSTLY_TESTS.name}")
        return 0
    for target, is_slow in (("test", False), ("test-slow", True)):
        tier = [cost for cost in costs if (cost.mark == "slow") is is_slow]
        used_s = sum(cost.processor_s for cost in tier)
        print(f"make {target}: {len(tier)} tests, {used_s:.0f} processor seconds")
    misplaced_tests = misplaced(costs)
    for test, used_s in misplaced_tests.most_common():
        print(f"belongs into {COSTLY_TESTS.name}, or must take less: {test}: {used_s:.1f} s")
    return bool(misplaced_tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
