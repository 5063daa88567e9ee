"""The share of the machine's matrix-product peak that training reaches: one JSON line.

The model is an MLP of three layers of 2048, batch 512, Adam. Its floating-point operations are
those of the matrix products alone. The peak is the best of TensorFlow's and PyTorch's large
products, measured in the same minutes.
"""

import argparse

from compare import PEERS_PYTHON, Candidate, CandidateProgram, Result, compare, report
from compare.problems import Wide

ROUNDS = 11
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    results = {dtype: measured(dtype) for dtype in POLICIES}
    report(
        "peak_flops",
        share={dtype: share(result) for dtype, result in results.items()},
        gflop_per_s={
            dtype: {name: round(gflop_per_s(result, name), 1) for name in result.rounds}
            for dtype, result in results.items()
        },
        step_ms={dtype: result.table()["ampcore"] for dtype, result in results.items()},
        chosen={dtype: result.chosen for dtype, result in results.items()},
        versions={key: it for result in results.values() for key, it in result.versions.items()},
    )


def measured(dtype: str) -> Result:
    """Training, and the peers' products, in turns."""
    return compare(
        (
            Candidate(
                "ampcore", CandidateProgram("ours.training"), f"wide-{POLICIES[dtype]}-none-graph"
            ),
            Candidate("tensorflow product", CandidateProgram("peers.tensorflow_product"), dtype),
            Candidate(
                "torch product", CandidateProgram("peers.torch_product", PEERS_PYTHON), dtype
            ),
        ),
        ROUNDS,
    )


def gflop_per_s(result: Result, name: str) -> float:
    """GFLOP each second; the products' steps are GFLOP themselves."""
    return (Wide.FLOPS * 1e-9 if name == "ampcore" else 1.0) / result.median(name) * 1e3


def share(result: Result) -> float:
    """Of the faster library's products."""
    peak = max(gflop_per_s(result, name) for name in result.rounds if name != "ampcore")
    return round(gflop_per_s(result, "ampcore") / peak, 3)


if __name__ == "__main__":
    main()
