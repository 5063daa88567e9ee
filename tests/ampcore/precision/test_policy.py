import keras
import pytest

from ampcore.precision import dtype_policy
from ampcore.spec.availability import POLICIES
from ampcore.spec.precision import COMPUTE_DTYPE, Precision


@pytest.mark.parametrize("name", POLICIES)
def test_weights_are_float32_and_compute_is_what_the_spec_says(name):
    policy = dtype_policy(Precision(policy=name))
    assert policy.variable_dtype == "float32"
    assert policy.compute_dtype == COMPUTE_DTYPE[name]


def test_the_global_policy_is_left_alone():
    dtype_policy(Precision(policy="mixed_float16"))
    assert keras.config.dtype_policy().name == "float32"
