"""A network that the spec describes layer by layer, and the penalties of its weights."""

from typing import Any

import tensorflow as tf

from ampcore.architectures.own_layers import named_sizes
from ampcore.data.dataset import Signature
from ampcore.data.examples import Batch
from ampcore.errors import InvalidModel
from ampcore.models.building_blocks import build_networks, data_shape
from ampcore.models.classification import Classification
from ampcore.models.registry import register
from ampcore.models.task import NonTrainable, Tensor, Weights
from ampcore.spec.layers.network import infer
from ampcore.spec.model import Layers, NamedInput
from ampcore.spec.problems import Problem
from ampcore.spec.rules import logits_problem


class RegularizedClassification(Classification):
    """Classification whose training loss has the penalties of the layers' regularizers."""

    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], NonTrainable]:
        """The mean cross-entropy of the batch, plus the penalties of the weights in float32."""
        [loss], after = super().losses(weights, non_trainable, batch, seed)
        return [loss + penalty for penalty in self._penalties(weights[0])] or [loss], after

    def _penalties(self, weights: list[Tensor]) -> list[Tensor]:
        """The sum of all penalties; empty without a regularizer."""
        variables = self.networks[0].model.trainable_variables
        found = [
            variable.regularizer(tf.cast(weight, tf.float32))
            for variable, weight in zip(variables, weights, strict=True)
            if getattr(variable, "regularizer", None) is not None
        ]
        return [tf.add_n(found)] if found else []


@register("layers", RegularizedClassification)
def own_layers(spec: Layers, signature: Signature) -> Any:
    """The layers of the spec; raises InvalidModel where they cannot take the data."""
    if problem := _first_problem(spec, signature):
        raise _invalid_model(problem)
    try:
        return build_networks(spec, signature)
    except (ValueError, TypeError, NotImplementedError) as error:
        message = str(error).partition("\n")[0]
        raise InvalidModel(
            "model.layers", expected="layers that Keras can build", received=message
        ) from error


def _first_problem(spec: Layers, signature: Signature) -> Problem | None:
    """Rules of the spec that need the data: it may not have been known when the job was posted."""
    network = spec.connect()
    if network.problems:
        return network.problems[0]
    given = NamedInput(shape=signature.input_shape, dtype=signature.input_dtype)
    for name, declared in spec.inputs.items():
        if declared != given:
            return Problem(
                f"/model/inputs/{name}",
                "model_cannot_take_data",
                f"the examples of the data: {given.dtype} {list(given.shape)}",
                f"{declared.dtype} {list(declared.shape)}",
            )
    sizes = named_sizes(data_shape(signature))
    found, problems = infer(network, {network.inputs[0]: given.shape}, sizes)
    if problems:
        return problems[0]
    output = network.outputs[0]
    received = found[output].output
    # A sequence has a label at each position.
    positions = signature.input_shape if signature.vocabulary == signature.classes else ()
    expected = (*positions, signature.classes)
    return next(logits_problem(spec, output, received, expected), None)


def _invalid_model(problem: Problem) -> InvalidModel:
    field = problem.pointer.removeprefix("/").replace("/", ".", 1)
    return InvalidModel(field, expected=problem.expected, received=problem.received or "nothing")
