"""Bundles: zip archives of Python modules that build a model; needs no TensorFlow."""
