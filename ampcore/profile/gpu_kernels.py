"""Which GPU kernels multiply on Tensor Cores, and in which dtype, read from their names.

A profile does not contain the instructions of a kernel, but libraries describe them in its name:
the shape of the matrix instruction (`s16816gemm` is mma.sync.m16n8k16), the engine (`xmma`,
`wgmma`), or a letter for each dtype (`nvjet_hsh`: float16 inputs, float32 sums, float16 results).

References:
    CUTLASS, media/docs/cpp/profiler.md, "GEMM Procedural Names"; PTX ISA, "Matrix multiply-
    accumulate operation using mma instruction"; DLProf user guide, "Tensor Core Usage".
"""

import re
from functools import cache
from typing import Final

TENSOR_CORES: Final = (
    # The shape m×n×k of the instruction, after the dtype of the sums: Volta, Turing, Ampere.
    r"(?:^|_|[a-z])[hsdi]?(?:884|1688|16816|16832|16864)(?:[a-z][a-z0-9]*_|[a-z]*gemm|cudnn)",
    r"_tensor\d+x\d+x\d+",
    # Engines of cuBLAS and cuDNN: xmma from Volta on, nvjet on Hopper and Blackwell.
    r"xmma_",
    r"nvjet",
    # CUTLASS, and kernels that name the instruction: wgmma (Hopper), tcgen05 (Blackwell).
    r"tensor_?op|tensorop",
    r"wgmma|warpgroup|tcgen05|utcmma|hmma|imma|wmma",
    # Attention of cuDNN, CUTLASS and FlashAttention, which exists for Tensor Cores alone.
    r"flash_(?:fwd|bwd)|fmha|native_sdpa",
    # Products of matrices that XLA generates with Triton, named after their operation.
    r"^gemm_fusion_",
)
"""Parts of the names of kernels that use Tensor Cores."""

NO_TENSOR_CORES: Final = (
    # CUDA cores: "single instruction, multiple threads", fused multiply-add of float32.
    r"simt|ffma",
    # float32 inputs and sums, without a mention of TF32.
    r"xmma_[a-z_]*f32f32_f32f32_f32(?!.*(?:tf32|_tensor\d))",
    r"gemv",
)
"""Parts of the names of kernels of the same libraries that do not."""

DTYPES: Final = (
    # The first letter after nvjet is the dtype of the inputs.
    (r"nvjet_(?:sm\d+_)?h[a-z]{2}_", "float16"),
    (r"nvjet_(?:sm\d+_)?t[a-z]{2}_", "bfloat16"),
    (r"nvjet_(?:sm\d+_)?[qo][a-z]{2}_", "float8"),
    (r"nvjet_(?:sm\d+_)?s[a-z]{2}_", "tf32"),
    (r"e4m3|e5m2|fp8|f8f8", "float8"),
    (r"tf32", "tf32"),
    (r"bf16|bfloat16", "bfloat16"),
    (r"f16|fp16|half|(?:^|_)h(?:gemm|cudnn|884|1688|16816)|__half", "float16"),
    (r"(?:^|_)s(?:gemm|cudnn)|float|f32", "float32"),
)
"""Parts of names, and the dtype of the inputs that they mean; the first that occurs decides."""

_TENSOR_CORES = re.compile("|".join(TENSOR_CORES), re.IGNORECASE)
_NO_TENSOR_CORES = re.compile("|".join(NO_TENSOR_CORES), re.IGNORECASE)
_DTYPES = tuple((re.compile(pattern, re.IGNORECASE), dtype) for pattern, dtype in DTYPES)


@cache
def uses_tensor_cores(kernel: str) -> bool:
    """Whether a kernel with this name multiplies on Tensor Cores."""
    return bool(_TENSOR_CORES.search(kernel)) and not _NO_TENSOR_CORES.search(kernel)


@cache
def states_cores(kernel: str) -> bool:
    """Whether the name of a kernel tells what it multiplies on.

    The names of kernels that a compiler has made tell nothing.
    """
    return (
        uses_tensor_cores(kernel)
        or bool(_NO_TENSOR_CORES.search(kernel))
        or input_dtype(kernel) is not None
    )


@cache
def input_dtype(kernel: str) -> str | None:
    """The dtype of the inputs that a kernel's name states; None if it states none."""
    return next((dtype for pattern, dtype in _DTYPES if pattern.search(kernel)), None)
