"""Recognises the messages of libraries that could not allocate memory.

Sources: TensorFlow's `ResourceExhaustedError` and its allocators (`bfc_allocator.cc`,
`cpu_allocator_impl.cc`), `dnnl_status_t` of oneDNN, `CUresult`, `cublasStatus_t` and
`cudnnStatus_t` of CUDA, the C++ standard library, errno(3), LLVM, NumPy and Arrow.
"""

import re
from typing import Final

MAX_CHARACTERS: Final = 300
ALLOCATION_FAILED: Final = re.compile(
    r"""
      OOM\ when\ allocating
    | \bresource[ _]exhausted\b
    | \b(?:ran\ |runs\ )?out\ of\ (?:host\ |device\ |gpu\ |system\ )?memory\b
    | (?:\b|_)out_of_(?:host_|device_)?memory\b
    | \b(?:CUBLAS|CUSOLVER|CUSPARSE|CUDNN)_STATUS_ALLOC_FAILED\b | \bCUFFT_ALLOC_FAILED\b
    | \bcudaErrorMemoryAllocation\b | \bhipErrorOutOfMemory\b
    | \bfailed\ to\ allocate\b | \b(?:unable|failed)\ to\ alloc\b
    | \bunable\ to\ allocate\ [\d.]+\ [KMGTPE]?i?B
    | \bunable\ to\ allocate\ section\ memory
    | \bstd::bad_alloc\b | \bbad_alloc\b
    | \b(?:cannot|can't|could\ not)\ allocate\ memory\b
    | \b(?:malloc|realloc|mmap|calloc)\b.*\bfailed\b
    | \bMemoryError\b
    | \bkInvalidChunkHandle\b
    | \bStatus:\ ?1,\ message:\ could\ not\ (?:create|execute|initialize)\b
    | \bcould\ not\ create\ a\ memory(?:\ object)?\b(?!\ descriptor)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A message of an allocation that failed. Status 1 of oneDNN is `out_of_memory`; it names a
primitive, or a memory object, that it "could not create"."""
NOT_A_FAILURE: Final = re.compile(
    r"""
      not\ a\ failure         # an allocator that tries again with less
    | larger\ than\ max       # a message of gRPC, which is "resource exhausted", too
    | Status:\ ?[2-9],         # of oneDNN: invalid arguments, unimplemented, …
    | exceeds\ \d+%\ of       # TensorFlow's warning about a large allocation
    """,
    re.IGNORECASE | re.VERBOSE,
)
THREAD_FAILED: Final = re.compile(
    r"can't start new thread|pthread_create\b.*failed|Thread creation failed"
    r"|Resource temporarily unavailable",
    re.IGNORECASE,
)
"""A thread that cannot start: no memory for its stack, or the user's process limit is reached."""


def allocation_failure(text: str) -> str | None:
    """The first line that reports a failed memory allocation; None if there is none.

    Args:
        text: The message of an error, or the end of a log.
    """
    return next(
        (
            line.strip()[:MAX_CHARACTERS]
            for line in text.splitlines()
            if ALLOCATION_FAILED.search(line) and not NOT_A_FAILURE.search(line)
        ),
        None,
    )
