"""What every step's record costs: ampcore's loop with and without it, one JSON line."""

from contest import Contestant, contest, report

ROUNDS = 31
VARIANTS = (
    "mlp-float32-none-xla_loop",
    "mlp-float32-dynamic-xla_loop",
    "cnn-float32-dynamic-graph",
    "cnn-mixed_bfloat16-none-graph",
)


def main() -> None:
    """Measure and print."""
    ratios, step_ms, quartiles, versions = {}, {}, {}, {}
    for variant in VARIANTS:
        result = contest(
            (
                Contestant("on", "ours.training", variant),
                Contestant("off", "ours.silent", variant),
            ),
            ROUNDS,
        )
        ratios[variant], step_ms[variant] = result.ratio("on", "off"), result.table()
        quartiles[variant], versions = result.spread(), result.versions()
    report(
        "records", on_over_off=ratios, step_ms=step_ms, quartiles_ms=quartiles, versions=versions
    )


if __name__ == "__main__":
    main()
