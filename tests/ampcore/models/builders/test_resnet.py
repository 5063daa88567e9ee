import numpy as np
import pytest

from ampspec.models.model import ResNet


@pytest.mark.parametrize(
    ("depth", "trainable"),
    # Option B of the paper, as in the usual CIFAR programs: 0.27, 0.46, 0.66 million.
    [(20, 272_474), (32, 466_906), (44, 661_338)],
)
def test_trainable_parameters_are_the_published_ones(build, images, depth, trainable):
    [network] = build(ResNet(depth=depth), images(32, 32, 3)).networks
    assert sum(int(np.prod(v.shape)) for v in network.model.trainable_variables) == trainable


def test_width_multiplies_the_filters_of_every_stage(build, images):
    [network] = build(ResNet(depth=8, width=4), images(16, 16, 3)).networks
    added = [network.model.get_layer(f"stage_{stage}_block_1_add") for stage in (1, 2, 3)]
    assert [layer.output.shape[1:] for layer in added] == [(16, 16, 4), (8, 8, 8), (4, 4, 16)]


def test_batch_statistics_are_returned_as_new_non_trainable_values(build, images, differentiate):
    task = build(ResNet(depth=8, width=4), images(8, 8, 1))
    [updates] = differentiate(task, images(8, 8, 1)).updates
    assert len(updates) == 2 * 9  # mean and variance of nine normalizations
