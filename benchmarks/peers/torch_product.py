"""PyTorch's large matrix products: how fast this machine can multiply."""

from functools import partial

import torch
from compare.problems import Product
from compare.serve import TimedRound, serve


def products(dtype: torch.dtype) -> dict[str, TimedRound]:
    """A TimedRound for each shape; its steps are GFLOP."""
    return {str(shape): product(*shape, dtype) for shape in Product.SHAPES}


def product(rows: int, inner: int, columns: int, dtype: torch.dtype) -> TimedRound:
    """The same product over and over."""
    left, right = torch.rand(rows, inner).to(dtype), torch.rand(inner, columns).to(dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    gflop = 2e-9 * rows * inner * columns

    def multiplied() -> float:
        for _ in range(Product.STEPS):
            torch.mm(left, right, out=out)
        return Product.STEPS * gflop

    return multiplied


if __name__ == "__main__":
    serve(
        {
            "float32": partial(products, torch.float32),
            "bfloat16": partial(products, torch.bfloat16),
        },
        "torch",
    )
