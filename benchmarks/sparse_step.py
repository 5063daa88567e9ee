"""A step on an embedding table of a million rows that touches 1,024 of them: one JSON line.

Adam and a dynamic loss scale on both sides; milliseconds a step, interleaved.
"""

import argparse

from compare import Candidate, CandidateProgram, compare, report

ROUNDS = 9


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    result = compare(
        (
            Candidate("ampcore", CandidateProgram("ours.training"), "sparse-float32-dynamic-graph"),
            Candidate("keras", CandidateProgram("peers.keras_sparse"), "dynamic"),
        ),
        ROUNDS,
    )
    report(
        "sparse_step",
        faster_than_keras=result.ratio("keras", "ampcore"),
        step_ms=result.table(),
        quartiles_ms=result.quartiles(),
        versions=result.versions,
    )


if __name__ == "__main__":
    main()
