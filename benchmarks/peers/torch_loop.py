"""PyTorch's eager training loop, with and without GradScaler and autocast.

On the MLP with Adam as it comes, and with the fused one; on images at the fastest of these and
the two memory layouts.
"""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from contest.problems import CLASSES, LEARNING_RATE, Cnn, Mlp, batches
from contest.serve import Round, serve
from torch import nn


def mlp() -> nn.Module:
    """The small perceptron, to logits."""
    sizes = [*Mlp.INPUT, *Mlp.HIDDEN]
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


def mlp_round(*, scaled: bool, fused: bool) -> Round:
    """The MLP, in batches that already are tensors."""
    x, y = batches(Mlp)
    data = [(torch.from_numpy(a), torch.from_numpy(b).long()) for a, b in zip(x, y, strict=True)]
    return loop(mlp(), data, fused=fused, scaled=scaled)


def cnn_rounds(autocast: Callable[[], AbstractContextManager[Any]]) -> dict[str, Round]:
    """The CNN, in either memory layout."""
    x, y = batches(Cnn)
    choices = {}
    for layout in (torch.contiguous_format, torch.channels_last):
        data = [
            (
                torch.from_numpy(a).permute(0, 3, 1, 2).contiguous(memory_format=layout),
                torch.from_numpy(b).long(),
            )
            for a, b in zip(x, y, strict=True)
        ]
        model = cnn().to(memory_format=layout)
        for fused in (False, True):
            choices[f"{layout} fused={fused}"] = loop(model, data, fused=fused, autocast=autocast)
    return choices


def loop(
    model: nn.Module,
    data: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    fused: bool,
    scaled: bool = False,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Round:
    """The training loop of PyTorch's own recipes."""
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=fused)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    loss_function = nn.CrossEntropyLoss()

    def trained() -> int:
        for x, y in data:
            optimizer.zero_grad()
            with autocast():
                loss = loss_function(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        loss.item()
        return len(data)

    return trained


if __name__ == "__main__":
    serve(
        {
            "mlp": partial(mlp_round, scaled=False, fused=False),
            "mlp_dynamic": partial(mlp_round, scaled=True, fused=False),
            "mlp_fused": partial(mlp_round, scaled=False, fused=True),
            "mlp_fused_dynamic": partial(mlp_round, scaled=True, fused=True),
            "cnn_float32": lambda: cnn_rounds(nullcontext),
            "cnn_bfloat16": lambda: cnn_rounds(lambda: torch.autocast("cpu", torch.bfloat16)),
        },
        "torch",
    )
