"""Images of discs in noise, for a regression of their radius.

A job trains on them with `data: {kind: package, package: custom-package, name: discs}`.
"""

from typing import Any

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ampcore.plugins import PackageDataset
from custom_package.drawing import draw_discs


class Options(BaseModel):
    """The options of the dataset."""

    model_config = ConfigDict(extra="forbid")

    examples: int = Field(default=1000, ge=10, le=100_000)
    size: int = Field(default=16, ge=4, le=128)
    """Height and width of the images."""
    noise: float = Field(default=0.1, ge=0, le=10)


def build(options: Options, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The images and the radius of each disc; the same ones for the same seed."""
    return draw_discs(options.examples, options.size, options.noise, seed)


discs = PackageDataset(build, Options)
