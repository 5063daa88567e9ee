"""The grammar of own models: one class for each layer of Keras that a spec may name.

A class has the fields of the layer with their bounds, and says what follows from the shapes of its
inputs. Nothing here loads Keras; `tests/ampspec/spec/layers` compares both.
"""
