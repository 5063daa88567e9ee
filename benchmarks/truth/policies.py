"""Policies that are truly worse than float32, and policies that are truly equal.

Each case trains float32 and a policy with several seeds, as the jobs of a study would, and asks the
code of the server for the answer. The size of a true difference is that of 20 seeds on 20,000 rows.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampspec.studies.plan import NoAnswer
from truth.case import Outcome, PlantedFault, Question, Verdict
from truth.trained_study import answer_precision

Array = NDArray[Any]
Layers = list[dict[str, Any]]

WIDTH: Final = 8
CLASSES: Final = 4
LOGITS: Final[dict[str, Any]] = {"layer": "Dense", "name": "logits", "units": "classes"}
HIDDEN: Final[dict[str, Any]] = {
    "layer": "Dense",
    "name": "hidden",
    "units": 32,
    "activation": "relu",
}
BATCH_NORM: Final[dict[str, Any]] = {
    "layer": "BatchNormalization",
    "name": "norm",
    "momentum": 0.97,
}
NOT_EQUAL: Final = ("worse", "failed")
DIGITS: Final = {"kind": "digits", "batch_size": 64, "validation_split": 0.5}


@dataclass(frozen=True)
class Table:
    """Rows of a data file: features whose class is a fixed function of them, with noise.

    Args:
        change: Makes the features of standard normal numbers, (n, WIDTH).
        rows: Of the file.
        used: How many of the features decide about the class.
        noise: The standard deviation of the noise of a class's score; None: random classes.
        data: Fields of the section `data`.
    """

    change: Callable[[Array], Array] = lambda x: x
    rows: int = 12_000
    used: int = WIDTH
    noise: float | None = 0.3
    data: Mapping[str, Any] = field(
        default_factory=lambda: {"validation_split": 0.5, "validation_rows": "random"}
    )

    def write(self, folder: Path, seed: int) -> dict[str, Any]:
        """Write the file; returns the section `data`."""
        random = np.random.default_rng(seed)
        x = random.standard_normal((self.rows, WIDTH))
        weights = np.random.default_rng(7).standard_normal((WIDTH, CLASSES))
        scores = np.tanh(x[:, : self.used] @ weights[: self.used])
        if self.noise is None:
            y = random.integers(CLASSES, size=self.rows)
        else:
            y = np.argmax(scores + self.noise * random.standard_normal(scores.shape), axis=1)
        np.savez(folder / "rows.npz", x=self.change(x).astype(np.float32), y=y)
        return {"kind": "npz", "path": "rows.npz", "batch_size": 64, **self.data}


@dataclass(frozen=True)
class PolicyCase:
    """A policy, and the verdict about it that is true.

    Args:
        name: What differs, as a row of the table.
        policy: The policy that is compared with float32.
        expected: The true verdict, as a sentence.
        verdicts: The verdicts that say so; `cannot tell` misleads nobody.
        layers: The network.
        table: The data; None: the handwritten digits.
        sections: Other sections of the spec.
        seeds: The seeds of the study.
        summary: What the summary must say, where the verdict alone is not enough.
        is_quick: Belongs to the sample of the slow tier.
    """

    name: str
    policy: str
    expected: str
    verdicts: tuple[str, ...]
    layers: Layers
    table: Table | None = field(default_factory=Table)
    sections: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 3
    summary: str = ""
    is_quick: bool = False

    def fault(self) -> PlantedFault:
        """The case as a row of the table."""
        return PlantedFault(
            self.name, Question.PRECISION, self.expected, self._ask, is_quick=self.is_quick
        )

    def _ask(self, seed: int) -> Outcome:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            data = dict(DIGITS) if self.table is None else self.table.write(folder, seed)
            if data.get("validation_rows") == "random":
                data["split_seed"] = seed
            document = {
                "model": {"kind": "layers", "layers": self.layers},
                "data": data,
                "optimizer": {"kind": "adam", "learning_rate": 0.005},
                "runtime": {"engine": "graph"},
                "telemetry": {"ranges": {"enabled": False}},
                **self.sections,
            }
            document["train"] = {"epochs": 4, **document.get("train", {}), "seed": 100 * seed}
            try:
                answer = answer_precision(document, self.policy, folder, seeds=self.seeds)
            except NoAnswer as error:
                return Outcome(Verdict.CANNOT_TELL, str(error))
        found = answer.policies[1]
        text = f"{found.verdict}: {found.explanation}"
        if self.summary:
            is_right = self.summary in answer.summary and found.verdict in self.verdicts
            return Outcome(Verdict.RIGHT if is_right else Verdict.WRONG, answer.summary)
        if found.verdict in self.verdicts:
            return Outcome(Verdict.RIGHT, text)
        is_open = found.verdict == "cannot tell"
        return Outcome(Verdict.CANNOT_TELL if is_open else Verdict.WRONG, text)


def _offset(mean: float, deviation: float) -> Callable[[Array], Array]:
    return lambda x: mean + deviation * x


SPLIT_5: Final = {"validation_split": 0.05, "validation_rows": "random"}
LINEAR: Final[dict[str, Any]] = {
    "layer": "Activation",
    "name": "rounded",
    "activation": "linear",
}

CASES: Final = (
    PolicyCase(
        "inputs offset by 200 before BatchNormalization, 5 % random split, bfloat16, three seeds",
        "mixed_bfloat16",
        "worse by 1.5 points; 5 % of the rows may not be enough to tell",
        NOT_EQUAL,
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(_offset(200.0, 1.8), data=SPLIT_5),
        is_quick=True,
    ),
    PolicyCase(
        "inputs offset by 200 before BatchNormalization, 5 % random split, bfloat16, four seeds",
        "mixed_bfloat16",
        "worse by 1.5 points; 5 % of the rows may not be enough to tell",
        NOT_EQUAL,
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(_offset(200.0, 1.8), data=SPLIT_5),
        seeds=4,
    ),
    PolicyCase(
        "inputs offset by 200 before BatchNormalization, half of 24,000 rows, bfloat16",
        "mixed_bfloat16",
        "worse by 1.5 points",
        NOT_EQUAL,
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(_offset(200.0, 1.8), rows=24_000),
    ),
    PolicyCase(
        "inputs offset by 200 with a deviation of 1 before BatchNormalization, bfloat16",
        "mixed_bfloat16",
        "worse by 5 points",
        NOT_EQUAL,
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(_offset(200.0, 1.0)),
    ),
    PolicyCase(
        "inputs offset by 2000 before BatchNormalization, float16",
        "mixed_float16",
        "worse by 5 points",
        NOT_EQUAL,
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(_offset(2000.0, 1.0)),
    ),
    PolicyCase(
        "a mean over 96,000 elements around 64, bfloat16",
        "mixed_bfloat16",
        "worse by 30 points: the means differ by less than their rounding",
        NOT_EQUAL,
        [
            {"layer": "Reshape", "name": "rows", "target_shape": [WIDTH, 1]},
            {"layer": "UpSampling1D", "name": "long", "size": 1000},
            {"layer": "UpSampling1D", "name": "longer", "size": 12},
            {"layer": "GlobalAveragePooling1D", "name": "mean"},
            {"layer": "BatchNormalization", "name": "norm", "momentum": 0.9},
            HIDDEN,
            LOGITS,
        ],
        Table(lambda x: 64.0 + 0.3 * x[:, :1] * np.ones_like(x), rows=1_000, used=1, noise=0.1),
        sections={"train": {"epochs": 14}},
    ),
    PolicyCase(
        "a sum over 8 elements around 20,000, float16",
        "mixed_float16",
        "failed: the sum overflows",
        NOT_EQUAL,
        [
            {"layer": "Dense", "name": "sum", "units": 16, "kernel_initializer": "ones"},
            {"layer": "LayerNormalization", "name": "norm"},
            HIDDEN,
            LOGITS,
        ],
        Table(_offset(20_000.0, 3_000.0)),
    ),
    PolicyCase(
        "tiny updates to weights that are stored in bfloat16",
        "bfloat16",
        "worse by many points: an update of 1e-5 is rounded away",
        NOT_EQUAL,
        [HIDDEN, LOGITS],
        sections={
            "optimizer": {"kind": "adam", "learning_rate": 0.00003},
            "train": {"epochs": 60},
        },
    ),
    PolicyCase(
        "activations of 1e-9, whose gradients underflow, float16",
        "mixed_float16",
        "worse by many points: no gradient reaches the first layer",
        NOT_EQUAL,
        [
            HIDDEN,
            {
                "layer": "Dense",
                "name": "tiny",
                "units": 16,
                "kernel_initializer": {"name": "random_normal", "stddev": 1e-9},
            },
            {"layer": "LayerNormalization", "name": "norm", "epsilon": 1e-30},
            LOGITS,
        ],
    ),
    PolicyCase(
        "a plain MLP, bfloat16",
        "mixed_bfloat16",
        "equal",
        ("equal",),
        [HIDDEN, LOGITS],
        is_quick=True,
    ),
    PolicyCase(
        "a plain MLP, float16",
        "mixed_float16",
        "equal",
        ("equal",),
        [HIDDEN, LOGITS],
    ),
    PolicyCase(
        "standard normal inputs before BatchNormalization, bfloat16",
        "mixed_bfloat16",
        "equal",
        ("equal",),
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(rows=24_000),
    ),
    PolicyCase(
        "inputs offset by 200 before BatchNormalization, which an override keeps in float32",
        "mixed_bfloat16",
        "equal: the fault is mended",
        ("equal",),
        [BATCH_NORM, HIDDEN, LOGITS],
        Table(_offset(200.0, 1.8), rows=24_000),
        sections={"precision": {"overrides": [{"layers": "^norm$", "dtype": "float32"}]}},
    ),
    PolicyCase(
        "digits, convolutions, float16",
        "mixed_float16",
        "equal",
        ("equal",),
        [
            {"layer": "Conv2D", "name": "conv", "filters": 16, "kernel_size": 3},
            {"layer": "Activation", "name": "relu", "activation": "relu"},
            {"layer": "Flatten", "name": "flat"},
            HIDDEN,
            LOGITS,
        ],
        None,
        sections={"train": {"epochs": 30}},
    ),
    PolicyCase(
        "float32 with TF32 on a CPU, which has none",
        "tf32",
        "equal: it is float32",
        ("equal",),
        [HIDDEN, LOGITS],
    ),
    PolicyCase(
        "random classes, bfloat16",
        "mixed_bfloat16",
        "cannot tell: float32 did not learn",
        ("cannot tell",),
        [HIDDEN, LOGITS],
        Table(noise=None),
        summary="float32 did not learn",
        is_quick=True,
    ),
    PolicyCase(
        "constant features, bfloat16",
        "mixed_bfloat16",
        "cannot tell: float32 did not learn",
        ("cannot tell",),
        [HIDDEN, LOGITS],
        Table(np.ones_like),
        summary="float32 did not learn",
    ),
)

FAULTS: Final[tuple[PlantedFault, ...]] = tuple(case.fault() for case in CASES)
