"""A training step on a GPU: ampcore, Keras, PyTorch and JAX, one JSON line for each network.

Milliseconds per step, medians over interleaved rounds; every program has its batches on the GPU,
but for Keras's `fit`. Ratios: a dynamic loss scale over none and over a fixed one, 16 bits over
float32. What cannot be prepared is reported and left out.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from compare import PEERS_PYTHON, Candidate, CandidateProgram, Result, compare_available, report

MODULES: Final = {
    "ampcore": "ours.training",
    "keras": "peers.keras_gpu",
    "torch": "peers.torch_gpu",
    "jax": "peers.jax_gpu",
}
OF_PEERS: Final = ("torch", "jax")
"""The frameworks that the peers' Python has."""


class Variants(NamedTuple):
    """Variants of a framework that one process prepares: each dtype with each scale and each way.

    The parts are separated by spaces. More processes prepare faster.
    """

    framework: str
    dtypes: str
    scales: str
    ways: str

    def names(self) -> list[str]:
        """`<dtype>-<scale>-<way>`, as the framework's program takes them."""
        parts = (self.dtypes.split(), self.scales.split(), self.ways.split())
        return ["-".join(choice) for choice in itertools.product(*parts)]


ENGINES: Final = "graph xla_step xla_loop"
KERAS_WAYS: Final = "fit1 fitxla1 fitxla50 loop loopxla"
OURS: Final = (
    *(
        Variants("ampcore", "mixed_float16", "none fixed dynamic", engine)
        for engine in ENGINES.split()
    ),
    Variants("ampcore", "float32", "none", ENGINES),
    Variants("ampcore", "mixed_bfloat16", "none", ENGINES),
)
PEERS: Final = (
    Variants("jax", "float16", "none dynamic", "scan"),
    Variants("jax", "float32 bfloat16", "none", "scan"),
    Variants("jax", "float16", "dynamic", "step"),
    Variants("torch", "float16", "none dynamic", "eager compile"),
    Variants("torch", "float32", "none", "eager"),
    Variants("torch", "float16", "none dynamic", "graphs"),
    Variants("torch", "float32 bfloat16", "none", "graphs"),
)
KERAS: Final = (
    Variants("keras", "mixed_float16", "none", KERAS_WAYS),
    Variants("keras", "mixed_float16", "dynamic", KERAS_WAYS),
    Variants("keras", "float32", "none", "fitxla1 loopxla"),
)
NETWORKS: Final[dict[str, tuple[Variants, ...]]] = {
    "cnn512": (*OURS, *PEERS, *KERAS),
    "cnn4096": (*OURS, *PEERS, *KERAS),
    "dense4096": (*OURS, *PEERS, *KERAS, Variants("ampcore", "mixed_float8", "none", ENGINES)),
    "dense4095": (*OURS, *PEERS),
    "gan": (
        Variants("ampcore", "float32", "none dynamic", ENGINES),
        Variants("ampcore", "mixed_float16", "none dynamic", ENGINES),
    ),
    "resnet50": (
        Variants("ampcore", "float32 mixed_bfloat16", "none", "graph"),
        Variants("ampcore", "mixed_float16", "none fixed dynamic", "graph"),
        Variants("ampcore", "mixed_float16", "none dynamic", "xla_step"),
        Variants("torch", "float16", "none dynamic", "eager"),
        Variants("torch", "float16", "dynamic", "compile"),
        Variants("torch", "float32", "none", "eager"),
    ),
}


def candidates(network: str, peers_python: Path) -> Iterator[Candidate]:
    """All candidates of a network."""
    for variants in NETWORKS[network]:
        python = peers_python if variants.framework in OF_PEERS else Path(sys.executable)
        instance = " ".join((network, *variants))
        program = CandidateProgram(MODULES[variants.framework], python, instance)
        for name in variants.names():
            yield Candidate(f"{variants.framework} {name}", program, f"{network}-{name}")


def answer(result: Result) -> dict[str, object]:
    """The medians, and the ratios that they give."""

    def ratios(numerator: str, denominator: str) -> dict[str, float]:
        """Of the candidates whose names differ in these parts alone."""
        pairs = {name: name.replace(numerator, denominator) for name in result.rounds}
        return {
            name: result.ratio(name, other)
            for name, other in pairs.items()
            if other != name and other in result.rounds
        }

    return {
        "dynamic_over_none": ratios("-dynamic-", "-none-"),
        "dynamic_over_fixed": ratios("-dynamic-", "-fixed-"),
        "float16_over_float32": {
            **ratios(" mixed_float16-", " float32-"),
            **ratios(" float16-", " float32-"),
        },
        "step_ms": result.table(),
        "quartiles_ms": result.quartiles(),
        "failed": result.failed,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--peers", type=Path, default=PEERS_PYTHON, help="Python of PyTorch, JAX")
    parser.add_argument("--rounds", type=int, default=11, help="at least 2")
    parser.add_argument("--at-once", type=int, default=16, help="programs that prepare at once")
    arguments = parser.parse_args()
    if unknown := set(arguments.networks) - NETWORKS.keys():
        parser.error(f"expected networks of {', '.join(NETWORKS)}; received {', '.join(unknown)}")
    os.environ.setdefault("AMPCORE_BENCH_DEVICE", "gpu")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for network in arguments.networks or NETWORKS:
        result = compare_available(
            [*candidates(network, arguments.peers)], arguments.rounds, at_once=arguments.at_once
        )
        for name, reason in result.failed.items():
            print(f"Left out: {name}: {reason}", file=sys.stderr)
        report("gpu_step", network=network, **answer(result), versions=result.versions)


if __name__ == "__main__":
    main()
