"""Some tests of ampspec build models."""

import os

# Before TensorFlow is imported by the first test that needs it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
