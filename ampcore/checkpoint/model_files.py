"""Saves the trained models; a file gets its final name once it is complete."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ampcore.models.task import Network


def save_models(networks: Sequence[Network], folder: Path) -> Iterator[Path]:
    """Save each network as `<name>.keras` in the folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for network in networks:
        file = folder / f"{network.name}.keras"
        unfinished = file.with_stem(f".{file.stem}-{os.getpid()}")
        try:
            network.model.save(unfinished)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
        yield file
