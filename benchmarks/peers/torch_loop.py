"""PyTorch's eager training loop, with and without GradScaler and autocast.

It trains the MLP with the default Adam and with the fused one, and the CNN on images in the default
memory layout and in channels-last.
"""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from compare.problems import CLASSES, LEARNING_RATE, Cnn, Mlp, batches
from compare.serve import TimedRound, serve
from torch import nn

Autocast = Callable[[], AbstractContextManager[Any]]


def dense(problem: Any = Mlp) -> nn.Module:
    """Dense layers with relu, to logits."""
    sizes = [*problem.INPUT, *problem.HIDDEN]
    hidden = [
        layer
        for into, out in itertools.pairwise(sizes)
        for layer in (nn.Linear(into, out), nn.ReLU())
    ]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], CLASSES))


def cnn() -> nn.Module:
    """The MNIST convolutional network, to logits."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, CLASSES),
    )
    assert sum(one.numel() for one in model.parameters()) == Cnn.PARAMETERS
    return model


def mlp_round(*, scaled: bool, fused: bool) -> TimedRound:
    """The MLP, in batches that already are tensors."""
    x, y = batches(Mlp)
    data = [(torch.from_numpy(a), torch.from_numpy(b).long()) for a, b in zip(x, y, strict=True)]
    return loop(dense(), data, fused=fused, scaled=scaled)


def cnn_round(autocast: Autocast, layout: torch.memory_format) -> TimedRound:
    """The CNN, in a memory layout."""
    x, y = batches(Cnn)
    data = [
        (
            torch.from_numpy(a).permute(0, 3, 1, 2).contiguous(memory_format=layout),
            torch.from_numpy(b).long(),
        )
        for a, b in zip(x, y, strict=True)
    ]
    return loop(cnn().to(memory_format=layout), data, fused=False, autocast=autocast)


def bfloat16() -> AbstractContextManager[Any]:
    """PyTorch's mixed precision on a CPU."""
    return torch.autocast("cpu", torch.bfloat16)


def loop(
    model: nn.Module,
    data: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    fused: bool,
    scaled: bool = False,
    autocast: Autocast = nullcontext,
    forward: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> TimedRound:
    """The training loop of PyTorch's own recipes, on the device of the model.

    `forward` is the compiled model; by default the model is not compiled.
    """
    forward = model if forward is None else forward  # a compiled model may have no truth value
    device = next(model.parameters()).device.type
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=fused)
    scaler = torch.amp.GradScaler(device, enabled=scaled)
    loss_function = nn.CrossEntropyLoss()

    def run_steps() -> int:
        for x, y in data:
            optimizer.zero_grad()
            with autocast():
                loss = loss_function(forward(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        loss.item()
        return len(data)

    return run_steps


if __name__ == "__main__":
    serve(
        {
            "mlp": partial(mlp_round, scaled=False, fused=False),
            "mlp_dynamic": partial(mlp_round, scaled=True, fused=False),
            "mlp_fused": partial(mlp_round, scaled=False, fused=True),
            "mlp_fused_dynamic": partial(mlp_round, scaled=True, fused=True),
            "cnn_float32": partial(cnn_round, nullcontext, torch.contiguous_format),
            "cnn_bfloat16": partial(cnn_round, bfloat16, torch.contiguous_format),
            "cnn_channels_last_float32": partial(cnn_round, nullcontext, torch.channels_last),
            "cnn_channels_last_bfloat16": partial(cnn_round, bfloat16, torch.channels_last),
        },
        "torch",
    )
