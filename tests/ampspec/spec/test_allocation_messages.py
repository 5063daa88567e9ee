"""Messages of allocations that failed, as people report them, and others that look like them."""

import pytest

from ampspec.documents.allocation_messages import allocation_failure


@pytest.mark.parametrize(
    "text",
    [
        "OOM when allocating tensor with shape[1098,16,128,128,3] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        "Operation received an exception:Status: 1, message: could not create a primitive, in file "
        "tensorflow/core/kernels/mkl/mkl_conv_grad_filter_ops.cc:685",
        "Compute received an exception:Status:1, message: could not create a memory object. in "
        "file tensorflow/core/kernels/mkl/mkl_maxpooling_op.cc:388",
        "could not create a memory object",
        "Operation received an exception:Status: 1, message: could not execute a primitive, in "
        "file tensorflow/core/kernels/mkl/mkl_matmul_op_fused.cc:306",
        "failed to allocate 2.19G (2351857664 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of "
        "memory",
        "Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "Check failed: h != kInvalidChunkHandle",
        "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED",
        "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
        "Out of memory while trying to allocate 16777716 bytes.",
        "RESOURCE_EXHAUSTED: Failed to allocate request for 528.00MiB on device ordinal 0",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "Unable to allocate 4.50 MiB for an array with shape (9216, 128) and data type float32",
        "OSError: [Errno 12] Cannot allocate memory",
        "malloc of size 1073741824 failed",
        "LLVM ERROR: out of memory",
        "LLVM ERROR: Unable to allocate section memory!",
    ],
)
def test_an_allocation_that_failed_is_recognised(text):
    assert allocation_failure(f"Graph execution error:\n\n{text}\n\t [[{{node a}}]]") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.34GiB with freed_by_count=0. "
        "The caller indicates that this is not a failure, but may mean that there could be "
        "performance gains if more memory were available.",
        "Allocation of 44089200 exceeds 10% of free system memory.",
        "Operation received an exception:Status: 3, message: could not create a primitive "
        "descriptor for a convolution, in file tensorflow/core/kernels/mkl_concat_op.cc:781",
        "Operation received an exception:Status: 2, message: could not create a memory object",
        "RESOURCE_EXHAUSTED: Received message larger than max (5000000 vs. 4194304)",
        "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
        "[Errno 28] No space left on device",
        "could not create a memory descriptor",
        "the memory of the past",
    ],
)
def test_another_message_is_not(text):
    assert allocation_failure(text) is None
