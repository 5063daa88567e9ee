"""A program that connects itself: it trains a model of Keras, and learns which rank hangs."""

import re

import keras
import numpy as np
import pytest

from ampcore import Trainer
from ampcore.distributed import Cluster
from ampspec.errors import InvalidModel
from tests.ampcore.distributed import custom_loop_program
from tests.ampcore.distributed.rank_processes import run_program

pytestmark = pytest.mark.xdist_group("python_commands")


@pytest.fixture(scope="module")
def ranks(python_commands, tmp_path_factory):
    """What both ranks have seen."""
    return run_program(
        python_commands / "python", custom_loop_program, tmp_path_factory.mktemp("ranks")
    )


def test_a_model_of_keras_trains_on_all_ranks_of_a_program(ranks):
    one, other = (found["trained"] for found in ranks)
    assert one == other
    alone = custom_loop_program.train(2 * custom_loop_program.BATCH)
    for found, expected in zip(one, alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_callback_of_rank_0_acts_on_all_ranks(ranks):
    first, second = (answers["with_callback"] for answers in ranks)
    assert first == second
    assert first["learning_rates"] == pytest.approx([0.1, 0.05])
    alone = custom_loop_program.train_with_callback(
        2 * custom_loop_program.BATCH, [custom_loop_program.Schedule()]
    )
    assert alone["learning_rates"] == first["learning_rates"]
    for weight, expected in zip(first["weights"], alone["weights"], strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)


def test_a_rank_that_hangs_is_named_on_all_ranks(ranks):
    """Checked: if the watch never calls, the program of rank 0 does not end."""
    for found in ranks:
        assert found["lost"]["ranks"] == [1]
        message = "The communication did not end within .*: rank 1 did not take part."
        assert re.fullmatch(message, found["lost"]["message"])


def test_a_model_of_a_process_that_has_not_connected_is_refused():
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    cluster = Cluster(("127.0.0.1:1", "127.0.0.1:2"), 0)
    data = np.zeros([8, 3]), np.zeros([8, 1])
    with pytest.raises(InvalidModel, match=r"created after ampcore.distributed.connect_from_env"):
        Trainer.from_keras(model, data=data, loss="mse", cluster=cluster)
