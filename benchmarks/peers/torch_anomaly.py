"""What PyTorch names for a planted fault: `python -m … FILE DATA`, one JSON line.

`torch.autograd.detect_anomaly` ends the training at the first backward function that returns NaN.
Beside it, forward and backward hooks note the first module whose output or gradient is not finite,
as tools that keep statistics of each layer (nvdlfw-inspect) show it.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

STEPS = 32
BATCH = 64


class Times(torch.nn.Module):
    """Multiplies by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, inputs: Any) -> Any:
        """Multiply."""
        return inputs * self.factor


def model_of(fault: dict[str, Any], features: int) -> Any:
    """An MLP, with a module that overflows or a damaged weight where the fault says so."""
    modules: dict[str, Any] = {
        "hidden_0": torch.nn.Linear(features, 32),
        "relu_0": torch.nn.ReLU(),
        "hidden_1": torch.nn.Linear(32, 32),
        "relu_1": torch.nn.ReLU(),
    }
    if fault["factor"]:
        modules["too_high"] = Times(fault["factor"])
    modules["logits"] = torch.nn.Linear(32, 4)
    if fault["weight"]:
        with torch.no_grad():
            modules["hidden_1"].weight[4, 3] = fault["weight"]
    model = torch.nn.Sequential()
    for name, module in modules.items():
        model.add_module(name, module)
    return model


class FirstNonfinite:
    """Notes the first module whose output is not finite."""

    def __init__(self, model: Any) -> None:
        self.module: str | None = None
        for name, module in model.named_children():
            module.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            if self.module is None and not torch.isfinite(output).all():
                self.module = name

        return hook


def main() -> None:
    """Train, and print what is said."""
    fault = json.loads(Path(sys.argv[1]).read_text())
    data = np.load(sys.argv[2])
    torch.manual_seed(0)
    model = model_of(fault, data["x"].shape[1])
    statistics = FirstNonfinite(model)
    optimizer = torch.optim.SGD(model.parameters(), fault["learning_rate"], momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=fault["initial_scale"])
    said = ""
    warnings.simplefilter("ignore")
    with torch.autograd.detect_anomaly():
        for step in range(STEPS):
            rows = slice(step * BATCH % len(data["x"]), step * BATCH % len(data["x"]) + BATCH)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                outputs = model(torch.from_numpy(data["x"][rows]))
            targets = torch.from_numpy(data["y"][rows])
            loss = torch.nn.functional.cross_entropy(outputs.float(), targets)
            try:
                scaler.scale(loss).backward()
            except RuntimeError as error:
                said = str(error)
                break
            scaler.step(optimizer)
            scaler.update()
    function = said.partition("'")[2].partition("'")[0] if "returned nan" in said else None
    print(json.dumps({"operation": function, "layers": [statistics.module]}))


if __name__ == "__main__":
    main()
