"""Train the model of flats.py as a job of a server.

python submit.py FOLDER uploads the data, trains, prints the metrics and downloads the model.
"""

import sys

import flats
import numpy as np

import ampclient


def main() -> None:
    """Upload, submit, wait, download."""
    if len(sys.argv) != 2:
        sys.exit("usage: python submit.py FOLDER")
    (inputs, targets), (held_out, answers) = flats.make_flats(2000, 0), flats.make_flats(400, 1)
    arrays = {f"{name}_train": array for name, array in (inputs | targets).items()}
    arrays |= {f"{name}_test": array for name, array in (held_out | answers).items()}
    np.savez("flats.npz", **arrays)
    with ampclient.Client() as client:
        client.datasets.upload("flats.npz", name="flats")
        job = client.jobs.submit(
            name="flats",
            model=flats.build_model(),
            data={
                "kind": "npz",
                "dataset": "flats",
                "inputs": {"size": "size", "district": "district"},
                "targets": {"price": "price", "rented": "rented"},
                "preprocessing": {"district": {"keys": True}},
                "batch_size": 64,
            },
            task={
                "kind": "outputs",
                "outputs": {
                    "price": {"task": {"kind": "regression", "metrics": ["mae"]}},
                    "rented": {"task": {"kind": "multi_label", "metrics": ["accuracy"]}},
                },
            },
            precision={"policy": "mixed_float16"},
            optimizer={"kind": "adam", "learning_rate": 0.01},
            train={"epochs": 15},
        ).wait()
        for name, value in job.metrics.items():
            print(f"{name}: {value:.4f}")
        job.download(to=sys.argv[1])


if __name__ == "__main__":
    main()
