"""Which tests share a stack when several processes test at once."""

import pytest

TENSORFLOW = pytest.mark.xdist_group("chaos-real")
"""With TensorFlow: a test that is about what a trainer computes, or how it fails."""
SCRIPTED = pytest.mark.xdist_group("chaos-scripted")
"""Without: all others, since they start, train and end in a fraction of the time."""
