"""Runs a peer's own tests of its LossScaleOptimizer against ours: only the imports are replaced.

    python benchmarks/peers/loss_scale_tests.py FILE

FILE is `tf_keras/mixed_precision/loss_scale_optimizer_test.py` of keras-team/tf-keras, which runs
against `ampcore.compat.LossScaleOptimizer`, or `keras/src/optimizers/loss_scale_optimizer_test.py`
of keras-team/keras (the wheel of Keras contains it), which runs against
`ampcore.LossScaleOptimizer`; each of the version that is installed. It prints a table of what
passed, was skipped, failed for a documented reason, or failed without one, which is an error.

`DIFFERENCES` documents the reasons; docs/guides/existing-loops.md has the same ones for users.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

_COMPAT: Final = """\
import types
from ampcore import compat
loss_scale_optimizer = types.SimpleNamespace(
    BaseLossScaleOptimizer=compat.LossScaleOptimizer,
    LossScaleOptimizer=compat.LossScaleOptimizer,
    LossScaleOptimizerV3=compat.LossScaleOptimizer,
)
"""
IMPORTS: Final = (
    # The installed tf_keras has its modules below `src`.
    (r"^from tf_keras\.mixed_precision import loss_scale_optimizer\n", _COMPAT),
    (r"^from tf_keras(?!\.src)\b", "from tf_keras.src"),
    (
        r"^from keras\.src\.optimizers\.loss_scale_optimizer import LossScaleOptimizer\n",
        "from ampcore import LossScaleOptimizer\n",
    ),
)
"""What replaces the imports of the tested class, as regular expressions of whole lines."""


class Difference(NamedTuple):
    """A deliberate difference: tests that fail with this error do so for this reason."""

    tests: str
    error: str
    reason: str


DIFFERENCES: Final = (
    Difference(
        "",
        r"Received: (MirroredStrategy|CentralStorageStrategy)",
        "tf.distribute strategies are refused: one process for each device",
    ),
    Difference(
        "testUnsupportedStrategy",
        r"ValueError not raised",
        "a strategy is refused in apply_gradients, not in the constructor",
    ),
    Difference(
        "testIterationsIncremented",
        r"1\)? != 2",
        "a skipped step counts no iteration, so a schedule does not advance",
    ),
    Difference(
        "testGetUnscaled|testScalingWarning",
        r"expected (a call of get_scaled_loss before it|gradients of get_unscaled_gradients)",
        "a call in another order is an error, not a warning",
    ),
    Difference(
        "testWeightMethods",
        r"has length of \d",
        "weights contain the loss scale and its counters, which set_weights restores",
    ),
    Difference(
        "testArbitraryAttributesNotExposed",
        r"AttributeError not raised",
        "all public attributes of the inner optimizer can be read and set",
    ),
    Difference(
        "testDynamicLossScaleWithSlots.*optimizersoptimizerOptimizer",
        r"has no get_slot_names",
        "one class for both kinds of optimizers of tf_keras; the newer ones have no slots by name",
    ),
    Difference(
        "testErrorWhenV[23]LsoWrapsV[23]Optimizer",
        r"TypeError not raised",
        "one class for both kinds of optimizers of tf_keras",
    ),
    Difference(
        "testFixedLossScaleAppliedToLossWithMinimize",
        r"is not an instance of .*Tensor",
        "loss_scale may also be called, so it is a value that converts itself to a tensor",
    ),
    Difference(
        "testSerializationWith",
        r"loss_scale_optimizer\.LossScaleOptimizer|only the classic optimizers subclassing",
        "optimizers.deserialize of tf_keras makes its own class; from_config reads the same",
    ),
    Difference(
        "testConvertToLegacyOptimizer",
        r"convert_to_legacy_optimizer",
        "tf_keras converts its own classes only: convert the inner optimizer",
    ),
    Difference(
        "test(Error|InvalidArgs|DynamicMustBeBool|_from_config_with_invalid_multiplier)",
        r'AssertionError: [\'"].*does not match [\'"](inner_optimizer|initial_scale|dynamic\w*|'
        r"loss_scale): expected ",
        "the same error is raised, with a message that names what was expected and received",
    ),
    Difference(
        "test_init_dynamic_arg",
        r"initial_scale: expected a number with dynamic=False",
        "dynamic=False is a fixed scale, where Keras 3 refuses it",
    ),
)


class Recorder:
    """A plugin of pytest that keeps the outcome and the errors of each test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.errors: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a phase of a test, or a part of it."""
        test = report.nodeid.rpartition("::")[2]
        if report.failed:
            self.outcomes[test] = "failed"
            self.errors.setdefault(test, []).append(str(report.longrepr))
        elif self.outcomes.get(test) != "failed" and (report.skipped or report.when == "call"):
            self.outcomes[test] = report.outcome


def reason_of(test: str, errors: list[str]) -> str | None:
    """The documented reason for all errors of a test; None if one has none."""
    reasons = [
        next(
            (
                difference.reason
                for difference in DIFFERENCES
                if re.match(difference.tests, test) and re.search(difference.error, error, re.S)
            ),
            None,
        )
        for error in errors
    ]
    return None if None in reasons else reasons[0]


def run(file: Path, folder: Path) -> Recorder:
    """Run a copy of the file whose imports are replaced."""
    text = file.read_text("utf-8")
    replaced = 0
    for pattern, replacement in IMPORTS:
        text, count = re.subn(pattern, replacement, text, flags=re.M)
        replaced += count
    if replaced == 0:
        raise SystemExit(f"{file}: expected tests that import a LossScaleOptimizer.")
    copy = folder / "test_of_peer.py"
    copy.write_text(text, encoding="utf-8")
    recorder = Recorder()
    options = ["-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider", "-q"]
    pytest.main([*options, "--tb=short", "--no-summary", str(copy)], plugins=[recorder])
    return recorder


def main() -> int:
    """Print the table; 1 if a test failed without a reason."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="a copy of the peer's file of tests")
    file = parser.parse_args().file
    with tempfile.TemporaryDirectory() as folder:
        recorder = run(file, Path(folder))
    failed = [test for test, outcome in recorder.outcomes.items() if outcome == "failed"]
    reasons = {test: reason_of(test, recorder.errors[test]) for test in failed}
    unexplained = [test for test, reason in reasons.items() if reason is None]
    counts = Counter(recorder.outcomes.values())
    print(f"\n{len(recorder.outcomes)} tests of {file.name}")
    print(f"{counts['passed']:4} passed")
    print(f"{counts['skipped']:4} skipped by the file itself")
    print(f"{len(failed) - len(unexplained):4} failed for a documented reason:")
    for reason, count in Counter(filter(None, reasons.values())).most_common():
        print(f"{count:8} {reason}")
    print(f"{len(unexplained):4} failed without one")
    for test in unexplained:
        lines = [line for line in recorder.errors[test][0].splitlines() if line.startswith("E ")]
        print(f"     {test}: {lines[0][1:].strip() if lines else ''}"[:300])
    return bool(unexplained) or not recorder.outcomes


if __name__ == "__main__":
    sys.exit(main())
