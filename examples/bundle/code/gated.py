"""A network with a layer and a loss of its own; needs nothing but Keras."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="gated")
class Gated(keras.layers.Layer):
    """Two dense halves, of which one decides how much of the other passes: a * sigmoid(b)."""

    def __init__(self, units, **layer):
        super().__init__(**layer)
        self.units = units

    def build(self, shape):
        """Create the weights."""
        self.kernel = self.add_weight(shape=(shape[-1], 2 * self.units), name="kernel")
        self.bias = self.add_weight(shape=(2 * self.units,), initializer="zeros", name="bias")

    def call(self, inputs):
        """The gated values."""
        values, gates = ops.split(ops.matmul(inputs, self.kernel) + self.bias, 2, axis=-1)
        return values * ops.sigmoid(gates)

    def get_config(self):
        """The arguments of the constructor, from which Keras creates the layer again."""
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="gated")
class SmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy with logits, against targets that leave a share to all classes."""

    def __init__(self, smoothing=0.1, name="smoothed_cross_entropy"):
        super().__init__(name=name)
        self.smoothing = smoothing

    def call(self, y_true, y_pred):
        """The loss of each example."""
        classes = y_pred.shape[-1]
        target = ops.one_hot(ops.cast(y_true, "int32"), classes)
        target = target * (1 - self.smoothing) + self.smoothing / classes
        return -ops.sum(target * ops.log_softmax(y_pred), axis=-1)


def build(options, signature):
    """A model for any numbers; `options` has the units of each layer and the smoothing."""
    inputs = keras.Input(signature.input.shape, name="features")
    hidden = keras.layers.Flatten(name="flatten")(inputs)
    for number, units in enumerate(options["units"], start=1):
        hidden = Gated(units, name=f"gated_{number}")(hidden)
    logits = keras.layers.Dense(signature.target.size, name="logits")(hidden)
    return {
        "model": keras.Model(inputs, logits, name="gated"),
        "loss": SmoothedCrossEntropy(options.get("smoothing", 0.1)),
        "metrics": ["accuracy"],
    }
