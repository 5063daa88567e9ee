"""A training step of ampcore beside its peers': the small MLP and the MNIST CNN, one JSON line.

Milliseconds a step, medians over interleaved rounds; every contestant has all cores, its fastest
settings (or several of them), and its batches in memory. A speed-up is the peer's median over ours.
"""

from contest import PEERS, Contestant, Program, Result, contest, report

MLP_ROUNDS, CNN_ROUNDS = 21, 21
OURS = Program("ours.training")
FIT = Program("peers.keras_fit")
KERAS = Program("peers.keras_loop")
TORCH = Program("peers.torch_loop", PEERS)
JAX = Program("peers.jax_scan", PEERS)

MLP = (
    Contestant("ampcore", OURS, "mlp-float32-none-any"),
    Contestant("ampcore dynamic", OURS, "mlp-float32-dynamic-any"),
    Contestant("keras fit dynamic", FIT, "dynamic"),
    Contestant("keras loop", KERAS, "mlp"),
    Contestant("keras loop dynamic", KERAS, "mlp_dynamic"),
    Contestant("torch", TORCH, "mlp"),
    Contestant("torch dynamic", TORCH, "mlp_dynamic"),
    Contestant("torch fused", TORCH, "mlp_fused"),
    Contestant("torch fused dynamic", TORCH, "mlp_fused_dynamic"),
    Contestant("jax scan", JAX, "mlp"),
    Contestant("jax scan dynamic", JAX, "mlp_dynamic"),
    Contestant("jax scan flax dynamic", JAX, "mlp_flax_dynamic"),
)

# The engine that a job's trial settles on: XLA's convolutions are slower on a CPU.
CNN = (
    Contestant("ampcore float32", OURS, "cnn-float32-none-graph"),
    Contestant("ampcore float32 dynamic", OURS, "cnn-float32-dynamic-graph"),
    Contestant("ampcore bfloat16", OURS, "cnn-mixed_bfloat16-none-graph"),
    Contestant("keras float32", KERAS, "cnn_float32"),
    Contestant("keras bfloat16", KERAS, "cnn_bfloat16"),
    Contestant("torch float32", TORCH, "cnn_float32"),
    Contestant("torch bfloat16", TORCH, "cnn_bfloat16"),
    Contestant("torch channels-last float32", TORCH, "cnn_channels_last_float32"),
    Contestant("torch channels-last bfloat16", TORCH, "cnn_channels_last_bfloat16"),
)


def main() -> None:
    """Measure and print."""
    mlp, cnn = contest(MLP, MLP_ROUNDS), contest(CNN, CNN_ROUNDS)
    report(
        "steps",
        mlp=answer(
            mlp,
            dynamic_over_none=mlp.ratio("ampcore dynamic", "ampcore"),
            faster_than={
                name: mlp.ratio(name, "ampcore dynamic")
                for name in mlp.rounds
                if name.endswith(" dynamic") and not name.startswith("ampcore")
            },
        ),
        cnn=answer(
            cnn,
            dynamic_over_none=cnn.ratio("ampcore float32 dynamic", "ampcore float32"),
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
    """The ratios, and what they come from."""
    return {
        **ratios,
        "step_ms": result.table(),
        "quartiles_ms": result.quartiles(),
        "chosen": result.chosen,
    }


if __name__ == "__main__":
    main()
