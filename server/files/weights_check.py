"""Check the header of an uploaded file of weights; its numbers are checked by the trainer."""

from pathlib import Path

from ampspec.jobs import Problem
from ampspec.tensor_header import TensorFormatError, read_weights_header
from server.errors import RequestInvalid


def check_weights(file: Path) -> None:
    """Raise RequestInvalid unless the file is safetensors that its arrays fill exactly."""
    try:
        with file.open("rb") as stream:
            read_weights_header(stream, file.stat().st_size)
    except TensorFormatError as error:
        problem = Problem("", "not_safetensors", error.expected, error.received)
        raise RequestInvalid([problem]) from None
