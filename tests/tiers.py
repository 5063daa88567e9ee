"""Which tests `make test` runs, and what each test costs.

A test is slow, and runs in `make test-slow`, if it needs a browser, a container, helm or a whole
stack, or more than half a percent of the processor time of `make test`.

The first half of that rule are `SLOW_FOLDERS`, the second half is the mark `slow`. The mark `quick`
is for the cheapest test of a promise and for one job from end to end, whatever they take. `--times
FILE` writes what each test took; `python -m tests.tiers FILE` checks the second half.
"""

import json
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
SLOW_FOLDERS: Final = tuple(
    ROOT / "tests" / name for name in ("chaos", "containers", "deploy", "e2e")
)
SHARE: Final = 1 / 200
"""The largest share of the processor time of `make test` that one of its tests may take."""
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
    """Give the mark `slow` to the tests of the slow folders, except those with the mark `quick`."""
    for item in items:
        in_slow_folder = any(folder in item.path.parents for folder in SLOW_FOLDERS)
        if in_slow_folder and item.get_closest_marker("quick") is None:
            item.add_marker(pytest.mark.slow)


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


def misplaced(costs: Iterable[Cost]) -> list[Cost]:
    """The tests without a mark that take too large a share of the time of `make test`."""
    quick = [cost for cost in costs if cost.mark != "slow"]
    limit_s = SHARE * sum(cost.processor_s for cost in quick)
    return [cost for cost in quick if not cost.mark and cost.processor_s > limit_s]


def main(files: list[str]) -> int:
    """Print the cost of each tier and the tests that belong into the other one."""
    costs = [cost for file in files for cost in read_costs(Path(file))]
    for target, is_slow in (("test", False), ("test-slow", True)):
        tier = [cost for cost in costs if (cost.mark == "slow") is is_slow]
        used_s = sum(cost.processor_s for cost in tier)
        print(f"make {target}: {len(tier)} tests, {used_s:.0f} processor seconds")
    misplaced_costs = misplaced(costs)
    for cost in misplaced_costs:
        print(f"needs the mark slow, or less time: {cost.test}: {cost.processor_s:.1f} s")
    return bool(misplaced_costs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
