"""A Keras model and an optimizer that were given to a run, which trains with them themselves."""

from typing import Any, Final

from ampcore.keras_internals import trained_variables
from ampcore.models.stateless_call import assigned_variables
from ampcore.models.task import Network
from ampcore.precision import LayerPolicies
from ampcore.precision.layers.weight_storage import KeptVariables, store_as
from ampspec.errors import InvalidModel
from ampspec.precision.precision import DTYPES_OF_16_BITS

NETWORK: Final = "model"
"""The name of the network, and of its file."""


class GivenModel:
    """A model with the values of its variables at the beginning.

    Args:
        model: A built keras.Model.
        example: Inputs of one example.
    """

    def __init__(self, model: Any, example: Any) -> None:
        self.model = model
        self._example = example
        self._kept = KeptVariables(model.variables)
        self._assigned = assigned_variables(model, example)

    def network(self, policies: LayerPolicies) -> Network:
        """The network that trains the model in these policies.

        With 16-bit weights its variables are stored in 16 bits until `put_back` or `keep`.
        """
        # Its weights may be stored in 16 bits by an earlier call.
        self._kept.keep_values()
        dtypes = policies.in_place(self.model, self._example)
        return Network(NETWORK, self.model, dtypes, assigned=self._assigned, is_given=True)

    def put_back(self) -> None:
        """Give the variables their dtypes and values of the beginning."""
        self._kept.put_back()

    def keep(self) -> None:
        """Give the variables their dtypes of the beginning, with the values of now."""
        self._kept.keep_values()


class GivenOptimizer:
    """An optimizer of Keras with the values of its variables at the beginning.

    Args:
        optimizer: The optimizer, built for the model or not built yet.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._kept = KeptVariables(optimizer.variables) if optimizer.built else None

    def built_for(self, network: Network) -> Any:
        """The optimizer, with slots for the weights of a network.

        Raises:
            InvalidModel: It was built for other weights, or in other dtypes than those of now.
        """
        weights = network.model.trainable_variables
        if self._kept is None:
            self._optimizer.build(weights)
            self._kept = KeptVariables(self._optimizer.variables)
            return self._optimizer
        optimized_ids = {id(variable) for variable in trained_variables(self._optimizer)}
        if not all(id(weight) in optimized_ids for weight in weights):
            raise InvalidModel(
                "optimizer",
                expected="a new optimizer, or one that was built for the trainable weights of this "
                "model",
                received=f"{type(self._optimizer).__name__}, built for other weights",
            )
        if any(weight.dtype in DTYPES_OF_16_BITS for weight in weights):
            raise InvalidModel(
                "optimizer",
                expected="a new optimizer, for a policy with 16-bit weights",
                received=f"{type(self._optimizer).__name__}, built for weights in another dtype",
            )
        self._store_in_float32()
        return self._optimizer

    def put_back(self) -> None:
        """Give its variables the values of the beginning, or of a new optimizer."""
        if self._kept is not None:
            self._kept.put_back()
        self._store_in_float32()

    def keep(self) -> None:
        """Keep the values of now."""
        self._store_in_float32()

    def _store_in_float32(self) -> None:
        for variable in self._optimizer.variables:
            if variable.dtype in DTYPES_OF_16_BITS:
                store_as(variable, "float32")
