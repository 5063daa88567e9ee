"""A training step of ampcore beside its peers': the small MLP and the MNIST CNN, one JSON line.

Milliseconds a step, medians over interleaved rounds; every contestant has all cores, its fastest
settings, and its batches in memory. A speed-up is the peer's median over ours.
"""

from contest import PEERS_PYTHON, Contestant, Result, contest, report

ROUNDS = 21

MLP = (
    Contestant("ampcore", "ours.training", "mlp-float32-none-any"),
    Contestant("ampcore dynamic", "ours.training", "mlp-float32-dynamic-any"),
    Contestant("keras fit dynamic", "peers.keras_fit", "dynamic"),
    Contestant("keras loop", "peers.keras_loop", "mlp"),
    Contestant("keras loop dynamic", "peers.keras_loop", "mlp_dynamic"),
    Contestant("torch", "peers.torch_loop", "mlp", PEERS_PYTHON),
    Contestant("torch dynamic", "peers.torch_loop", "mlp_dynamic", PEERS_PYTHON),
    Contestant("torch fused", "peers.torch_loop", "mlp_fused", PEERS_PYTHON),
    Contestant("torch fused dynamic", "peers.torch_loop", "mlp_fused_dynamic", PEERS_PYTHON),
    Contestant("jax scan", "peers.jax_scan", "mlp", PEERS_PYTHON),
    Contestant("jax scan dynamic", "peers.jax_scan", "mlp_dynamic", PEERS_PYTHON),
    Contestant("jax scan flax dynamic", "peers.jax_scan", "mlp_flax_dynamic", PEERS_PYTHON),
)

CNN = (
    Contestant("ampcore float32", "ours.training", "cnn-float32-none-any"),
    Contestant("ampcore float32 dynamic", "ours.training", "cnn-float32-dynamic-any"),
    Contestant("ampcore bfloat16", "ours.training", "cnn-mixed_bfloat16-none-any"),
    Contestant("keras float32", "peers.keras_loop", "cnn_float32"),
    Contestant("keras bfloat16", "peers.keras_loop", "cnn_bfloat16"),
    Contestant("torch float32", "peers.torch_loop", "cnn_float32", PEERS_PYTHON),
    Contestant("torch bfloat16", "peers.torch_loop", "cnn_bfloat16", PEERS_PYTHON),
)


def main() -> None:
    """Measure and print."""
    mlp, cnn = contest(MLP, ROUNDS), contest(CNN, ROUNDS)
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
                for peer in ("keras", "torch")
                for dtype in ("float32", "bfloat16")
            },
        ),
        versions={**mlp.versions(), **cnn.versions()},
    )


def answer(result: Result, **ratios: object) -> dict[str, object]:
    """The ratios, and what they come from."""
    return {
        **ratios,
        "step_ms": result.table(),
        "quartiles_ms": result.spread(),
        "chosen": result.chosen(),
    }


if __name__ == "__main__":
    main()
