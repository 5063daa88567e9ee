"""The cost of skipping steps that are not finite, in runs without a loss scale: one JSON line.

ampcore's loop as a job runs it, and the same loop with `guard.skip_nonfinite: false`.
"""

import argparse

from compare import Candidate, CandidateProgram, compare, report

OURS = CandidateProgram("ours.training")
ROUNDS = 11
VARIANTS = (
    ("mlp", "float32", "graph"),
    ("mlp", "mixed_bfloat16", "graph"),
    ("mlp", "float32", "xla_loop"),
    ("mlp", "mixed_bfloat16", "xla_loop"),
    ("cnn", "float32", "graph"),
    ("cnn", "mixed_bfloat16", "graph"),
)


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    ratios, step_ms, quartiles, versions = {}, {}, {}, {}
    for problem, policy, engine in VARIANTS:
        name = f"{problem}-{policy}-{engine}"
        result = compare(
            (
                Candidate("checked", OURS, f"{problem}-{policy}-checked-{engine}"),
                Candidate("unchecked", OURS, f"{problem}-{policy}-none-{engine}"),
            ),
            ROUNDS,
        )
        ratios[name] = result.ratio("checked", "unchecked")
        step_ms[name] = result.table()
        quartiles[name], versions = result.quartiles(), result.versions
    report(
        "finite_check",
        checked_over_unchecked=ratios,
        step_ms=step_ms,
        quartiles_ms=quartiles,
        versions=versions,
    )


if __name__ == "__main__":
    main()
