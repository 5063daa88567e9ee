"""PyTorch on a GPU with autocast and GradScaler; batches are on the GPU before the first step.

A variant is `<problem>-<dtype>-<none|dynamic>-<eager|compile|graphs>`: `compile` is
`torch.compile`, `graphs` its mode for small steps, with CUDA graphs. ResNet-50 is torchvision's, in
the memory layout channels-last. AMPCORE_BENCH_DEVICE: `gpu`, or `cpu` for a trial of this program.
"""

import os
import sys
from functools import partial
from typing import Any

import torch
from compare import problems
from compare.problems import CLASSES
from compare.serve import TimedRound, serve
from torch import nn

from peers.torch_loop import cnn, dense, loop

DEVICE = "cuda" if os.environ.get("AMPCORE_BENCH_DEVICE", "gpu") == "gpu" else "cpu"
DTYPES = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}
MODES = {"compile": None, "graphs": "reduce-overhead"}


def resnet50() -> nn.Module:
    """ResNet-50 for ten classes."""
    from torchvision.models import resnet50 as build

    return build(num_classes=CLASSES)  # type: ignore[no-any-return]


MODELS: dict[str, tuple[Any, Any]] = {
    "cnn512": (problems.Cnn512, cnn),
    "cnn4096": (problems.Cnn4096, cnn),
    "dense4096": (problems.Dense4096, partial(dense, problems.Dense4096)),
    "dense4095": (problems.Dense4095, partial(dense, problems.Dense4095)),
    "resnet50": (problems.ResNet50, resnet50),
}


def rounds(variant: str) -> TimedRound:
    """The candidate with a variant's name."""
    name, dtype_name, loss_scale, mode = variant.split("-")
    problem, build = MODELS[name]
    dtype = DTYPES[dtype_name]
    # As TensorFlow does: float32 products on Tensor Cores, in TF32.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    model = build().to(DEVICE)
    if len(problem.INPUT) == 3:
        model = model.to(memory_format=torch.channels_last)
    return loop(
        model,
        on_device(problem),
        fused=True,
        scaled=loss_scale == "dynamic",
        autocast=partial(torch.autocast, DEVICE, dtype, enabled=dtype is not None),
        forward=None if mode == "eager" else torch.compile(model, mode=MODES[mode]),
    )


def on_device(problem: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Random batches; images are in the layout that convolutions on Tensor Cores want."""
    shape = problem.INPUT if len(problem.INPUT) == 1 else (*problem.INPUT[2:], *problem.INPUT[:2])
    batches = []
    for _ in range(problem.STEPS):
        x = torch.rand(problem.BATCH, *shape, device=DEVICE)
        if len(shape) == 3:
            x = x.contiguous(memory_format=torch.channels_last)
        batches.append((x, torch.randint(0, CLASSES, (problem.BATCH,), device=DEVICE)))
    return batches


if __name__ == "__main__":
    serve({name: partial(rounds, name) for name in sys.argv[1:]}, "torch")
