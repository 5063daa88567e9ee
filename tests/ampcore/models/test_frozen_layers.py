"""Frozen layers: no gradients, no optimizer slots, and errors that name the expression."""

import keras
import pytest
from keras import layers

from ampcore.models.classification import Classification
from ampcore.models.frozen_layers import freeze_layers
from ampcore.models.task import Network
from ampspec.errors import InvalidModel


@pytest.fixture
def task():
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="deep")], name="tower")
    inputs = keras.Input((4,))
    x = layers.BatchNormalization(name="norm")(inner(inputs))
    return Classification([Network("model", keras.Model(inputs, layers.Dense(2, name="head")(x)))])


def trained(task):
    return [variable.path for variable in task.networks[0].model.trainable_variables]


def test_without_expressions_everything_is_trained(task):
    before = trained(task)
    freeze_layers(task, ())
    assert trained(task) == before


def test_layers_inside_a_model_are_frozen_by_its_path(task):
    freeze_layers(task, ["^tower", "^norm$"])
    assert [path.split("/")[0] for path in trained(task)] == ["head", "head"]


def test_an_expression_that_matches_nothing_is_refused_with_the_paths(task):
    with pytest.raises(InvalidModel) as caught:
        freeze_layers(task, ["head", "conv"])
    assert caught.value.field == "init.freeze/1"
    assert "tower/deep" in caught.value.expected


def test_a_network_needs_something_to_train(task):
    with pytest.raises(InvalidModel, match="at least one layer to train in the network model"):
        freeze_layers(task, ["."])
