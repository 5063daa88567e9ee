"""Errors of several libraries as OutOfMemory."""

import pytest
import tensorflow as tf

from ampcore.allocation_errors import out_of_memory
from ampcore.user_code.module import explained_errors
from ampspec.errors import OutOfMemory
from ampspec.jobs import Reason


def raised_while(first, second):
    """The second error, raised while the first one was handled."""
    try:
        try:
            raise first
        finally:
            raise second
    except type(second) as error:
        return error


ONEDNN = (
    "Graph execution error:\n\nOperation received an exception:Status: 1, message: could not "
    "create a primitive, in file tensorflow/core/kernels/mkl/mkl_conv_grad_filter_ops.cc:685"
)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (MemoryError(), "MemoryError"),
        (MemoryError("Exception encountered when calling Conv2D.call().\n"), "MemoryError"),
        (tf.errors.ResourceExhaustedError(None, None, "no room"), "no room"),
        (tf.errors.AbortedError(None, None, ONEDNN), "could not create a primitive"),
        (tf.errors.InternalError(None, None, "CUDA_ERROR_OUT_OF_MEMORY"), "CUDA_ERROR"),
        (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
        (raised_while(MemoryError("no table"), ValueError("closed file")), "no table"),
    ],
)
def test_an_allocation_that_failed_is_out_of_memory(error, detail):
    full = out_of_memory(error)
    assert full.reason is Reason.OUT_OF_MEMORY
    assert detail in str(full)
    assert "lower data.batch_size" in str(full)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a wrong shape"),
        tf.errors.AbortedError(None, None, "Status: 3, message: could not create a primitive"),
        tf.errors.ResourceExhaustedError(None, None, "Received message larger than max"),
        OSError(28, "No space left on device"),
        RuntimeError("can't start new thread"),  # this process has no limit of memory
    ],
)
def test_another_error_is_not(error):
    assert out_of_memory(error) is None


def test_memory_that_custom_code_lacks_is_named_with_its_line(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("def build():\n    raise MemoryError('no table')\n")
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102 - the code of this test
    message = r"net\.py:2 in build: Out of memory \(no table\)"
    with pytest.raises(OutOfMemory, match=message), explained_errors(tmp_path):
        names["build"]()
