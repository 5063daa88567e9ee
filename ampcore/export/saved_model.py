"""A model as a TensorFlow SavedModel, in one zip file."""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import keras
import numpy as np
import tensorflow as tf

from ampcore.export.named_model import Arrays, NamedModel


def save(named_model: NamedModel, file: Path) -> None:
    """Write a SavedModel whose signature `serving_default` has the names of the model."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        archive = keras.export.ExportArchive()
        archive.track(named_model.model)
        archive.add_endpoint(name="serve", fn=named_model.call, input_signature=named_model.specs)
        archive.write_out(folder, verbose=False)
        with ZipFile(file, "w", ZIP_STORED) as target:  # weights cannot be compressed
            for path in sorted(Path(folder).rglob("*")):
                target.write(path, path.relative_to(folder))


def run(named_model: NamedModel, file: Path, arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a saved file, loaded without Keras, for arrays by column."""
    folder = tempfile.mkdtemp(dir=file.parent)
    try:
        with ZipFile(file) as source:
            source.extractall(folder)
        loaded = tf.saved_model.load(folder)
        function = loaded.signatures["serving_default"]
        tensors = {
            name: tf.constant(arrays[column])
            for column, name in zip(named_model.columns, named_model.inputs, strict=True)
        }
        return {name: np.asarray(value) for name, value in function(**tensors).items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
