"""A training step on a GPU: ampcore, Keras, PyTorch and JAX, one JSON line for each network.

Milliseconds per step, medians over interleaved rounds; every program has its batches on the GPU,
but for Keras's `fit`. Ratios: a dynamic loss scale over none and over a fixed one, 16 bits over
float32, peers over ampcore. What cannot be prepared is reported and left out.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from compare import PEERS_PYTHON, Candidate, CandidateProgram, Result, compare_available, report

PROBLEMS = ("cnn512", "cnn4096", "dense4096", "dense4095", "gan", "resnet50", "float8")
ENGINES = ("graph", "xla_step", "xla_loop")
LOSS_SCALES = ("none", "fixed", "dynamic")
KERAS_WAYS = ("fit1", "fitxla1", "fitxla50", "loop", "loopxla")


class Programs:
    """The programs of a comparison, with the interpreters that have what they need."""

    def __init__(self, problem: str, peers: Path) -> None:
        self._problem, self._peers = problem, peers

    def ours(self, *variants: str, instance: str = "") -> Iterator[Candidate]:
        """Variants of ampcore in a process of their own."""
        program = CandidateProgram("ours.training", instance=f"{self._problem} {instance}")
        for variant in variants:
            yield Candidate(f"ampcore {variant}", program, f"{self._problem}-{variant}")

    def keras(self, *variants: str, instance: str = "") -> Iterator[Candidate]:
        """Variants of Keras."""
        program = CandidateProgram("peers.keras_gpu", instance=f"{self._problem} {instance}")
        for variant in variants:
            yield Candidate(f"keras {variant}", program, f"{self._problem}-{variant}")

    def torch(self, *variants: str, instance: str = "") -> Iterator[Candidate]:
        """Variants of PyTorch."""
        program = CandidateProgram("peers.torch_gpu", self._peers, f"{self._problem} {instance}")
        for variant in variants:
            yield Candidate(f"torch {variant}", program, f"{self._problem}-{variant}")

    def jax(self, *variants: str) -> Iterator[Candidate]:
        """Variants of JAX."""
        program = CandidateProgram("peers.jax_gpu", self._peers, self._problem)
        for variant in variants:
            yield Candidate(f"jax {variant}", program, f"{self._problem}-{variant}")


def candidates(problem: str, peers: Path) -> list[Candidate]:
    """All candidates of a problem."""
    if problem == "float8":
        programs = Programs("dense4096", peers)
        policies = ("mixed_float8", "mixed_bfloat16")
        return [
            one
            for policy in policies
            for one in programs.ours(*(f"{policy}-none-{e}" for e in ENGINES), instance=policy)
        ]
    programs = Programs(problem, peers)
    if problem == "gan":
        return [
            one
            for policy in ("float32", "mixed_float16")
            for one in programs.ours(
                *(f"{policy}-{scale}-{e}" for scale in ("none", "dynamic") for e in ENGINES),
                instance=policy,
            )
        ]
    if problem == "resnet50":
        return [
            *programs.ours("float32-none-graph", "mixed_bfloat16-none-graph", instance="other"),
            *programs.ours(*(f"mixed_float16-{scale}-graph" for scale in LOSS_SCALES)),
            *programs.torch("float16-none-eager", "float16-dynamic-eager"),
            *programs.torch("float16-dynamic-compile", "float32-none-eager"),
        ]
    found = [
        *(
            one
            for engine in ENGINES
            for one in programs.ours(
                *(f"mixed_float16-{scale}-{engine}" for scale in LOSS_SCALES), instance=engine
            )
        ),
        *programs.ours(*(f"float32-none-{e}" for e in ENGINES), instance="float32"),
        *programs.ours(*(f"mixed_bfloat16-none-{e}" for e in ENGINES), instance="bfloat16"),
        *programs.jax("float16-none-scan", "float16-dynamic-scan", "float16-dynamic-step"),
        *programs.jax("float32-none-scan", "bfloat16-none-scan"),
        *programs.torch("float16-none-eager", "float16-dynamic-eager", "float32-none-eager"),
        *programs.torch("float16-none-compile", "float16-dynamic-compile", instance="compile"),
        *programs.torch("float16-none-graphs", "float16-dynamic-graphs", instance="graphs"),
        *programs.torch("float32-none-graphs", "bfloat16-none-graphs", instance="more graphs"),
    ]
    if problem == "dense4095":
        return [one for one in found if "graph" in one.name or "xla_loop" in one.name]
    return [
        *found,
        *programs.keras("float32-none-fitxla1", "float32-none-loopxla", instance="float32"),
        *(
            one
            for scale in ("none", "dynamic")
            for one in programs.keras(
                *(f"mixed_float16-{scale}-{way}" for way in KERAS_WAYS), instance=scale
            )
        ),
    ]


def answer(result: Result) -> dict[str, object]:
    """The medians, and the ratios that they give."""
    names = set(result.rounds)

    def ratios(of: str, to: str) -> dict[str, float]:
        """Of all names with `of` in them, over the same names with `to`."""
        return {
            name: result.ratio(name, other)
            for name in sorted(names)
            if of in name and (other := name.replace(of, to)) in names
        }

    return {
        "dynamic_over_none": ratios("-dynamic-", "-none-"),
        "dynamic_over_fixed": ratios("-dynamic-", "-fixed-"),
        "step_ms": result.table(),
        "quartiles_ms": result.quartiles(),
        "failed": result.failed,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", metavar="NET", help=", ".join(PROBLEMS))
    parser.add_argument("--peers", type=Path, default=PEERS_PYTHON, help="Python of PyTorch, JAX")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--at-once", type=int, default=16, help="programs that prepare at once")
    arguments = parser.parse_args()
    os.environ.setdefault("AMPCORE_BENCH_DEVICE", "gpu")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for problem in arguments.problems or PROBLEMS:
        result = compare_available(
            candidates(problem, arguments.peers), arguments.rounds, at_once=arguments.at_once
        )
        for name, reason in result.failed.items():
            print(f"Left out: {name}: {reason}", file=sys.stderr)
        report("gpu_step", net=problem, **answer(result), versions=result.versions)


if __name__ == "__main__":
    main()
