"""Groups of tests that share a stack in a parallel run."""

import pytest

TENSORFLOW = pytest.mark.xdist_group("chaos-real")
"""With TensorFlow: tests of what a trainer computes, or how it fails."""
SCRIPTED = pytest.mark.xdist_group("chaos-scripted")
"""Without TensorFlow: all other tests, because these trainers start and end much faster."""
