"""What other tools name for the same faults, side by side; one JSON line for each fault.

TensorFlow's check_numerics and PyTorch's anomaly detection end a training at the first operation
that is not finite; statistics of each layer show the first module with such an output. A fault
counts as named if its layer or its example is in the answer, or the setting that is wrong.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from compare import BENCHMARKS, PEERS_PYTHON, report
from truth.planted import Data, Plant, table
from truth.steps import BAD_STEP, Times, at_step, mlp

from ampspec.telemetry import EventType

EXAMPLE: Final = at_step(7)


@dataclass(frozen=True)
class Fault:
    """A fault that all tools can be given.

    Args:
        value: Of all features of one example; None: the example is good.
        learning_rate: Of SGD.
        initial_scale: Of the dynamic loss scale.
        factor: Of a layer whose output overflows; 0: there is none.
        weight: One weight of the second layer; 0: it is good.
        named: What a right answer names, as a pattern.
    """

    named: str
    value: float | None = None
    learning_rate: float = 0.01
    initial_scale: float = 2.0**15
    factor: float = 0.0
    weight: float = 0.0


FAULTS: Final = {
    "NaN in one example": Fault(str(EXAMPLE), value=float("nan")),
    "1e30 in one example": Fault(str(EXAMPLE), value=1e30),
    "3000 in one example": Fault(str(EXAMPLE), value=3000.0),
    "learning rate 3000": Fault("learning.rate", learning_rate=3000.0),
    "initial loss scale 2^24": Fault("loss.scale", initial_scale=2.0**24),
    "a layer overflows": Fault("too_high", factor=1e6),
    "one weight of 3e32": Fault("hidden_1", weight=3e32),
}


def data_of(fault: Fault) -> Data:
    """The data of a fault."""
    data = table(0)
    if fault.value is not None:
        data.x[EXAMPLE] = fault.value
    return data


def ampcore_says(fault: Fault, data: Data) -> str:
    """The sentence of the first skipped step's event, else of the explanation of its step."""

    def model(given: Data) -> Any:
        factors = (Times(fault.factor, name="too_high"),) if fault.factor else ()
        built = mlp(given, layers=factors)
        if fault.weight:
            kernel = np.array(built.get_layer("hidden_1").kernel)
            kernel[3, 4] = fault.weight
            built.get_layer("hidden_1").kernel.assign(kernel)
        return built

    scale = {"mode": "dynamic", "initial": fault.initial_scale}
    plant = Plant(model, data, learning_rate=fault.learning_rate, sections={"loss_scale": scale})
    run = plant.train()
    if (event := run.first(EventType.OVERFLOW)) is not None and event.step is not None:
        return str(event.data["sentence"])
    answer = plant.explain(BAD_STEP)
    return f"{answer['sentence']} {answer['advice']}"


def peer_says(python: Path, module: str, fault: Path, data: Path) -> dict[str, Any]:
    """What a peer prints."""
    done = subprocess.run(
        [str(python), "-m", module, str(fault), str(data)],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:200]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Ask all tools, and print."""
    for name, fault in FAULTS.items():
        data = data_of(fault)
        with tempfile.TemporaryDirectory() as folder:
            described, arrays = Path(folder) / "fault.json", Path(folder) / "data.npz"
            described.write_text(json.dumps(asdict(fault)))
            np.savez(arrays, x=data.x, y=data.y)
            tensorflow = peer_says(
                Path(sys.executable), "peers.tensorflow_check_numerics", described, arrays
            )
            torch = peer_says(PEERS_PYTHON, "peers.torch_anomaly", described, arrays)
        report(
            "truth_peers",
            fault=name,
            right=fault.named,
            ampcore=ampcore_says(fault, data)[:250],
            check_numerics=tensorflow,
            torch_anomaly=torch,
        )


if __name__ == "__main__":
    main()
