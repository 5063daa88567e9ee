"""Whether mixed_float8 reaches what float32 reaches: paired runs over seeds, by validation loss.

python -m benchmarks.float8_convergence [--seeds 5] [--epochs 15]

Each policy trains the CNN on the digits from the same initial weights and batches as float32 with
the same seed. The difference of a policy is within the noise if it is smaller than the standard
deviation of float32 over the seeds.
"""

import argparse
import statistics
from typing import Any, Final

from ampcore import JobSpec, Trainer

POLICIES: Final[dict[str, dict[str, Any]]] = {
    "float32": {"policy": "float32"},
    "mixed_bfloat16": {"policy": "mixed_bfloat16"},
    "mixed_float8, delayed": {"policy": "mixed_float8"},
    "mixed_float8, current": {"policy": "mixed_float8", "float8": {"scaling": "current"}},
}


def main() -> None:
    """Print one row of a Markdown table for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=15)
    given = parser.parse_args()
    losses: dict[str, list[float]] = {}
    print("| policy | validation loss, mean ± deviation | paired difference | accuracy |")
    print("| --- | --- | --- | --- |")
    for name, precision in POLICIES.items():
        results = [_train(precision, seed, given.epochs) for seed in range(given.seeds)]
        losses[name] = [result.metrics["val_loss"] for result in results]
        accuracy = statistics.mean(result.metrics["val_accuracy"] for result in results)
        pairs = zip(losses[name], losses["float32"], strict=True)
        difference = statistics.mean(own - reference for own, reference in pairs)
        print(
            f"| {name} | {statistics.mean(losses[name]):.4f} ± "
            f"{statistics.stdev(losses[name]):.4f} | {difference:+.4f} | {accuracy:.2%} |",
            flush=True,
        )


def _train(precision: dict[str, Any], seed: int, epochs: int) -> Any:
    spec = {
        "model": {"kind": "cnn"},
        "data": {"kind": "digits", "batch_size": 64},
        "precision": precision,
        "train": {"epochs": epochs, "seed": seed, "eval_every_epochs": epochs},
        "runtime": {"engine": "graph", "device": "cpu"},
    }
    return Trainer(JobSpec.parse(spec)).run()


if __name__ == "__main__":
    main()
