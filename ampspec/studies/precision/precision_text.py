"""The sentences of a study of precision."""

from collections.abc import Sequence
from typing import cast

from ampspec.api.studies import PolicyAnswer
from ampspec.documents.text import plural
from ampspec.studies.precision.policies import FLOAT32
from ampspec.studies.statistics.paired_test import CONFIDENCE, NoiseBand, PairedComparison


def speed_text(answer: PolicyAnswer) -> str:
    """The speed-up and its range over the pairs, which other load on a machine widens."""
    if answer.speedup is None:
        return ""
    text = f"{answer.speedup:.2f} × the speed of float32"
    if answer.speedup_range is None:
        return text
    low, high = answer.speedup_range
    return f"{text} ({low:.2f} to {high:.2f} in the pairs)"


def pairs_disagree(answer: PolicyAnswer) -> bool:
    """Whether it was faster than float32 with some seeds, and slower with others."""
    return (
        answer.speedup_range is not None and answer.speedup_range[0] < 1.0 < answer.speedup_range[1]
    )


def summary_text(policies: Sequence[PolicyAnswer], best: PolicyAnswer) -> str:
    """The answer of a study whose recommended policy is `best`."""
    compared = [answer for answer in policies if answer.policy != FLOAT32]
    verdicts = "; ".join(f"{answer.policy}: {answer.verdict}" for answer in compared)
    if best.policy != FLOAT32 and pairs_disagree(best):
        return (
            f"{best.policy} can be used: it is as accurate as float32. The pairs do not tell "
            f"whether it is faster: {speed_text(best)}. ({verdicts})"
        )
    if best.policy != FLOAT32:
        return f"Use {best.policy}: as accurate as float32, {speed_text(best)}. ({verdicts})"
    undecided = [answer for answer in compared if answer.verdict == "cannot tell"]
    if undecided:
        seeds = [
            answer.needs_more_seeds for answer in undecided if answer.needs_more_seeds is not None
        ]
        more = f" Run it with {plural(max(seeds), 'more seed')}." if seeds else ""
        rows = [answer.needs_examples for answer in undecided if answer.needs_examples is not None]
        if rows and not seeds:
            more = f" About {max(rows):,} validation rows are needed."
        return f"Stay with float32 for now; some policies are undecided.{more} ({verdicts})"
    as_good = [answer for answer in compared if answer.verdict in ("equal", "better")]
    if as_good:
        speeds = "; ".join(
            f"{answer.policy} has {speed_text(answer)}" for answer in as_good if answer.speedup
        )
        faster = "known to be faster" if any(map(pairs_disagree, as_good)) else "faster"
        return f"Stay with float32: no policy is {faster}{speeds and f', {speeds}'}. ({verdicts})"
    why = "no policy is as accurate"
    return f"Stay with float32: {why}. ({verdicts})" if compared else "Only float32 was studied."


def comparison_text(
    comparison: PairedComparison, band: NoiseBand, metric: str, margin: float, changed: float | None
) -> str:
    """The verdict about a policy, with its evidence.

    Args:
        comparison: The comparison with float32.
        band: The noise band of float32.
        metric: The name of the metric.
        margin: A difference of at most this does not matter.
        changed: The share of validation examples whose metric differs; None: not known.
    """
    low, high = cast(tuple[float, float], comparison.interval)
    interval = f"[{number_text(low, signed=True)}, {number_text(high, signed=True)}]"
    text = (
        f"{metric} differs by {number_text(comparison.difference, signed=True)} "
        f"({CONFIDENCE:.0%} interval {interval}, {plural(comparison.pairs, 'pair')}); float32 "
        f"itself varies by ±{number_text(band.half_width)}."
    ).replace("% interval", " % interval")
    if changed is not None:
        text += f" {100 * changed:.3g} % of the validation examples change."
    if not comparison.by_example:
        text += (
            " Only the means of the seeds are compared, since not all jobs reported it by example."
        )
    match comparison.verdict:
        case "equal":
            return f"{text} The interval lies within ±{number_text(margin)}."
        case "cannot tell":
            needs = []
            if comparison.more_seeds is not None:
                needs.append(plural(comparison.more_seeds, "more seed"))
            if comparison.examples is not None:
                needs.append(f"about {comparison.examples:,} validation rows")
            if not needs:
                return f"{text} Cannot tell: more than a thousand seeds would be needed."
            return f"{text} Cannot tell, within ±{number_text(margin)}: needs {' or '.join(needs)}."
    return f"{text} The interval excludes 0: the difference is significant."


def number_text(value: float, *, signed: bool = False) -> str:
    """Four digits of a number."""
    return f"{value:+.4g}" if signed else f"{value:.4g}"
