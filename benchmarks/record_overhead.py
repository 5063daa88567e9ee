"""The cost of recording every step: one JSON line.

ampcore's loop with records; with the same values computed in every step, but only the last step's
kept; and without records, without the values that only the record needs.
"""

import argparse

from compare import Candidate, CandidateProgram, compare, report

OURS = CandidateProgram("ours.training")
ROUNDS = 21
VARIANTS = (
    "mlp-float32-none-xla_loop",
    "mlp-float32-dynamic-xla_loop",
    "cnn-float32-dynamic-graph",
    "cnn-mixed_bfloat16-none-graph",
)


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    over_last, over_off, step_ms, quartiles, versions = {}, {}, {}, {}, {}
    for variant in VARIANTS:
        result = compare(
            (
                Candidate("on", OURS, variant),
                Candidate("last", OURS, f"{variant}-last"),
                Candidate("off", OURS, f"{variant}-silent"),
            ),
            ROUNDS,
        )
        over_last[variant], over_off[variant] = (result.ratio("on", to) for to in ("last", "off"))
        step_ms[variant] = result.table()
        quartiles[variant], versions = result.quartiles(), result.versions
    report(
        "record_overhead",
        on_over_last=over_last,
        on_over_off=over_off,
        step_ms=step_ms,
        quartiles_ms=quartiles,
        versions=versions,
    )


if __name__ == "__main__":
    main()
