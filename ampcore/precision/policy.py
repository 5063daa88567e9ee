"""The Keras dtype policy that a job spec asks for."""

from typing import Any

import keras

from ampcore.spec.precision import Precision


def dtype_policy(precision: Precision) -> Any:
    """A keras.DTypePolicy to hand to every layer; the global policy is left alone."""
    return keras.DTypePolicy(precision.policy)
