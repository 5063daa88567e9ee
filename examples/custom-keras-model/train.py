"""Train the model of flats.py with ampcore's Trainer, on this machine, in mixed precision.

python train.py FOLDER prints the metrics and the saved model.
"""

import sys
from pathlib import Path

from ampcore import environment

environment.configure()

import flats  # noqa: E402 - after its settings

import ampcore  # noqa: E402


def main() -> None:
    """Train, and print the metrics."""
    if len(sys.argv) != 2:
        sys.exit("usage: python train.py FOLDER")
    trainer = ampcore.Trainer.from_keras(
        flats.build_model(),
        *flats.make_flats(2000, seed=0),
        validation_data=flats.make_flats(400, seed=1),
        loss=flats.LOSS,
        metrics=flats.METRICS,
        optimizer={"kind": "adam", "learning_rate": 0.01},
        batch_size=64,
        epochs=15,
        policy="mixed_float16",
        output_dir=Path(sys.argv[1]),
    )
    result = trainer.run()
    for name, value in result.metrics.items():
        print(f"{name}: {value:.4f}")
    print(f"skipped steps: {result.skipped}; saved: {result.model_file}")


if __name__ == "__main__":
    main()
