"""A step on an embedding table of a million rows, of which it touches 1,024: one JSON line.

Adam and a dynamic loss scale on both sides; milliseconds a step, interleaved.
"""

from contest import Contestant, Program, contest, report

ROUNDS = 9


def main() -> None:
    """Measure and print."""
    result = contest(
        (
            Contestant("ampcore", Program("ours.training"), "sparse-float32-dynamic-graph"),
            Contestant("keras", Program("peers.keras_sparse"), "dynamic"),
        ),
        ROUNDS,
    )
    report(
        "sparse",
        faster_than_keras=result.ratio("keras", "ampcore"),
        step_ms=result.table(),
        quartiles_ms=result.quartiles(),
        versions=result.versions,
    )


if __name__ == "__main__":
    main()
