"""A training step of ampcore and of its peers: the small MLP and the MNIST CNN, one JSON line.

Milliseconds per step, medians over interleaved rounds; every candidate has all cores, its fastest
settings (or several of them), and its batches in memory. A speed-up is the peer's median over ours.
"""

import argparse

from compare import PEERS_PYTHON, Candidate, CandidateProgram, Result, compare, report

MLP_ROUNDS, CNN_ROUNDS = 21, 21
OURS = CandidateProgram("ours.training")
FIT = CandidateProgram("peers.keras_fit")
KERAS = CandidateProgram("peers.keras_loop")
TORCH = CandidateProgram("peers.torch_loop", PEERS_PYTHON)
JAX = CandidateProgram("peers.jax_scan", PEERS_PYTHON)

MLP = (
    Candidate("ampcore", OURS, "mlp-float32-none-any"),
    Candidate("ampcore dynamic", OURS, "mlp-float32-dynamic-any"),
    Candidate("ampcore from_keras dynamic", OURS, "mlp_keras-float32-dynamic-any"),
    Candidate("keras fit dynamic", FIT, "dynamic"),
    Candidate("keras loop", KERAS, "mlp"),
    Candidate("keras loop dynamic", KERAS, "mlp_dynamic"),
    Candidate("torch", TORCH, "mlp"),
    Candidate("torch dynamic", TORCH, "mlp_dynamic"),
    Candidate("torch fused", TORCH, "mlp_fused"),
    Candidate("torch fused dynamic", TORCH, "mlp_fused_dynamic"),
    Candidate("jax scan", JAX, "mlp"),
    Candidate("jax scan dynamic", JAX, "mlp_dynamic"),
    Candidate("jax scan flax dynamic", JAX, "mlp_flax_dynamic"),
)

# The engine that a job's autotuning chooses: XLA's convolutions are slower on a CPU.
CNN = (
    Candidate("ampcore float32", OURS, "cnn-float32-none-graph"),
    Candidate("ampcore float32 dynamic", OURS, "cnn-float32-dynamic-graph"),
    Candidate("ampcore bfloat16", OURS, "cnn-mixed_bfloat16-none-graph"),
    Candidate("ampcore from_keras bfloat16", OURS, "cnn_keras-mixed_bfloat16-none-graph"),
    Candidate("keras float32", KERAS, "cnn_float32"),
    Candidate("keras bfloat16", KERAS, "cnn_bfloat16"),
    Candidate("torch float32", TORCH, "cnn_float32"),
    Candidate("torch bfloat16", TORCH, "cnn_bfloat16"),
    Candidate("torch channels-last float32", TORCH, "cnn_channels_last_float32"),
    Candidate("torch channels-last bfloat16", TORCH, "cnn_channels_last_bfloat16"),
)


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    mlp, cnn = compare(MLP, MLP_ROUNDS), compare(CNN, CNN_ROUNDS)
    report(
        "training_step",
        mlp=answer(
            mlp,
            dynamic_over_none=mlp.ratio("ampcore dynamic", "ampcore"),
            from_keras_over_job=mlp.ratio("ampcore from_keras dynamic", "ampcore dynamic"),
            faster_than={
                name: mlp.ratio(name, "ampcore dynamic")
                for name in mlp.rounds
                if name.endswith(" dynamic") and not name.startswith("ampcore")
            },
        ),
        cnn=answer(
            cnn,
            dynamic_over_none=cnn.ratio("ampcore float32 dynamic", "ampcore float32"),
            from_keras_over_job=cnn.ratio("ampcore from_keras bfloat16", "ampcore bfloat16"),
            bfloat16_faster_than_float32=cnn.ratio("ampcore float32", "ampcore bfloat16"),
            faster_than={
                f"{peer} {dtype}": cnn.ratio(f"{peer} {dtype}", f"ampcore {dtype}")
                for peer in ("keras", "torch", "torch channels-last")
                for dtype in ("float32", "bfloat16")
            },
        ),
        versions={**mlp.versions, **cnn.versions},
    )


def answer(result: Result, **ratios: object) -> dict[str, object]:
    """The ratios, and the medians that they are computed from."""
    return {
        **ratios,
        "step_ms": result.table(),
        "quartiles_ms": result.quartiles(),
        "chosen": result.chosen,
    }


if __name__ == "__main__":
    main()
