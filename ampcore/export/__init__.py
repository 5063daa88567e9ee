"""Saved models in other formats: SavedModel and ONNX, checked against the model.

Import `export`, which loads TensorFlow, by its full name.
"""
