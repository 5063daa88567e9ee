"""The decisions of PyTorch's GradScaler: reads flags and prints scales, one JSON line each."""

import importlib.metadata
import json
import sys

import torch


def scales(flags: list[bool], initial: float, interval: int) -> list[float]:
    """The scale after each step; a flag states whether the gradient of the step was finite."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], 0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=interval)
    scaler.scale(weight.sum())  # the scale is created at its first use
    found = []
    for finite in flags:
        weight.grad = torch.tensor([1.0 if finite else torch.inf])
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    return found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    print(json.dumps({"scales": scales(**asked), "torch": importlib.metadata.version("torch")}))
