"""Checks of the optimizers against the weights' dtypes and the length of the run."""

import struct
from collections.abc import Iterator
from typing import Final

from ampspec.documents.text import plural
from ampspec.objectives.optimizer import PackageOptimizer
from ampspec.precision.layer_dtypes import PURE_16_BIT_POLICIES
from ampspec.precision.precision import COMPUTE_DTYPE
from ampspec.preflight.case import Case, Finding
from ampspec.preflight.layer_table import LayerTable, all_layers

SMALLEST_NORMAL: Final = 2.0**-14
"""Below it float16 loses precision bit by bit, and some devices flush it to 0."""

SIGNIFICAND_BITS: Final = {"float16": 11, "bfloat16": 8}


def vanishing_epsilon(case: Case) -> Iterator[Finding]:
    """An epsilon that float16 weights would round to 0 or to a subnormal number.

    The optimizers of ampcore compute in float32 and keep it; others do not.
    """
    for pointer, optimizer, tables in case.optimizers:
        epsilon = getattr(optimizer, "epsilon", None)
        if epsilon is None or epsilon >= SMALLEST_NORMAL:
            continue
        if "float16" not in _weight_dtypes(case, tables):
            continue
        rounded = struct.unpack("e", struct.pack("e", epsilon))[0]
        becomes = "0" if rounded == 0 else f"the subnormal {rounded:.3g}"
        yield Finding(
            "epsilon_vanishes_in_float16",
            "info",
            f"{pointer}/epsilon",
            f"An epsilon of {epsilon:g} is {becomes} in float16, the dtype of the weights. It "
            "works here, because the update and its slots are float32; an optimizer that computes "
            f"in float16 would divide by 0 and needs {SMALLEST_NORMAL:.2g} or more.",
            {"epsilon": epsilon, "in_float16": rounded},
        )


def weights_in_16_bits(case: Case) -> Iterator[Finding]:
    """Weights that are stored in 16 bits and rounded after each update."""
    for dtype in sorted(_weight_dtypes(case, case.tables) & SIGNIFICAND_BITS.keys()):
        share = 2 ** SIGNIFICAND_BITS[dtype]
        yield Finding(
            "weights_in_16_bits",
            "info",
            "/precision/policy",
            f"Weights are stored in {dtype}: an update below 1/{share:,} of a weight is lost to "
            f"rounding. mixed_{dtype} computes as fast and keeps float32 weights.",
            {"dtype": dtype},
        )


def warmup_longer_than_run(case: Case) -> Iterator[Finding]:
    """A warm-up that is not shorter than the run."""
    for pointer, optimizer, _ in case.optimizers:
        warm_up, steps = optimizer.schedule.warmup_steps, case.total_steps
        if steps is not None and warm_up >= steps:
            yield Finding(
                "warm_up_longer_than_run",
                "warning",
                f"{pointer}/schedule/warmup_steps",
                f"The warm-up takes {plural(warm_up, 'step')} and the run ends after {steps:,}: "
                f"the learning rate never reaches {optimizer.learning_rate:g}.",
                {"total_steps": steps},
            )


def unknown_slots(case: Case) -> Iterator[Finding]:
    """The memory of an optimizer of a package, or of a class without a configuration."""
    for pointer, optimizer, tables in case.optimizers:
        if getattr(optimizer, "slots_per_weight", 0) is None:
            name, slots = getattr(optimizer, "class_name", "it"), optimizer.slots
            yield Finding(
                "optimizer_slots_assumed",
                "info",
                pointer,
                f"The number of optimizer variables of {name} is unknown, because no copy can "
                "be created from its get_config; the memory estimate assumes "
                f"{plural(slots, 'variable')} per weight, as for Adam.",
                {"slots": slots},
            )
        if isinstance(optimizer, PackageOptimizer):
            weights = sum(table.trainable for table in tables or ())
            example = f": {4 * weights:,} bytes for each of them" if weights else ""
            yield Finding(
                "optimizer_slots_unknown",
                "info",
                pointer,
                f"The number of optimizer variables of {optimizer.label} is known only once the "
                f"job starts; the memory estimate leaves them out{example}.",
                {"trainable_parameters": weights or None},
            )


def _weight_dtypes(case: Case, tables: tuple[LayerTable, ...] | None) -> set[str]:
    """The dtypes of the trainable weights; without layers, those of the policy."""
    if tables is None:
        return {COMPUTE_DTYPE[case.policy]} if case.policy in PURE_16_BIT_POLICIES else {"float32"}
    return {layer.variable_dtype for layer in all_layers(tables) if layer.trainable}
