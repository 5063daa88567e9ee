"""The grammar of custom networks: one class for each Keras layer that a spec may name.

A class has the fields of the layer with their bounds, and infers output shapes and weights from
the shapes of its inputs. Nothing here loads Keras; `tests/ampspec/spec/layers` compares both.
"""
