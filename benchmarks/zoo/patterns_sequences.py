"""Recurrent and convolutional models of sequences, as public examples build them."""

from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from zoo.architecture import Data, pattern_of

WORDS, LENGTH, CLASSES = 40, 12, 3


def token_classes(random: np.random.Generator, examples: int) -> Data:
    """Padded rows of token ids, and a class for each."""
    tokens = random.integers(1, WORDS, (examples, LENGTH))
    lengths = random.integers(3, LENGTH, (examples, 1))
    tokens = np.where(np.arange(LENGTH) < lengths, tokens, 0)
    return tokens.astype(np.int32), tokens[:, 0] % CLASSES


def series(random: np.random.Generator, examples: int) -> Data:
    """Padded rows of three numbers, and a number for each."""
    x = random.normal(size=(examples, LENGTH, 3)).astype(np.float32)
    x[:, LENGTH - 4 :] = 0.0
    return x, x.mean(axis=(1, 2), keepdims=True)[:, 0]


def masked_bidirectional_lstm() -> Any:
    """An embedding with a mask, and LSTMs in both directions."""
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(WORDS, 16, mask_zero=True),
            layers.Bidirectional(layers.LSTM(16, return_sequences=True)),
            layers.Bidirectional(layers.LSTM(8)),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )


def masked_gru_series() -> Any:
    """A Masking layer, and a prediction for each time step."""
    return keras.Sequential(
        [
            keras.Input((LENGTH, 3)),
            layers.Masking(0.0),
            layers.GRU(16, return_sequences=True),
            layers.LayerNormalization(),
            layers.TimeDistributed(layers.Dense(8, activation="relu")),
            layers.Dense(1),
        ]
    )


def each_step(random: np.random.Generator, examples: int) -> Data:
    """The series with a target and a weight for each time step."""
    x, _ = series(random, examples)
    weight = (np.arange(LENGTH) < LENGTH - 4).astype(np.float32)
    return x, np.cumsum(x[..., :1], axis=1) / 4, np.tile(weight, (examples, 1))


def seq2seq_lstm() -> Any:
    """The state of an encoder begins that of a decoder; inputs are a list."""
    source = keras.Input((None, WORDS), name="source")
    _, hidden, cell = layers.LSTM(16, return_state=True, name="encoder")(source)
    target = keras.Input((None, WORDS), name="target")
    decoder = layers.LSTM(16, return_sequences=True, return_state=True, name="decoder")
    outputs, _, _ = decoder(target, initial_state=[hidden, cell])
    outputs = layers.Dense(WORDS, activation="softmax")(outputs)
    return keras.Model([source, target], outputs)


def one_hot_pairs(random: np.random.Generator, examples: int) -> Data:
    """A sequence and its reverse, as one-hot rows; the target is one step ahead."""
    ids = random.integers(WORDS, size=(examples, LENGTH))
    source, target = np.eye(WORDS, dtype=np.float32)[ids], np.eye(WORDS)[ids[:, ::-1]]
    decoder_inputs = np.concatenate([np.zeros_like(target[:, :1]), target[:, :-1]], axis=1)
    return [source, decoder_inputs.astype(np.float32)], target.astype(np.float32)


@keras.saving.register_keras_serializable("zoo")  # type: ignore[untyped-decorator]
class CTCLayer(layers.Layer):  # type: ignore[misc]
    """Adds the CTC loss of its labels, and returns the predictions."""

    def call(self, labels: Any, predictions: Any) -> Any:
        """The predictions."""
        batch = ops.shape(labels)[0]
        steps = ops.ones((batch,), "int32") * ops.shape(predictions)[1]
        lengths = ops.ones((batch,), "int32") * ops.shape(labels)[1]
        self.add_loss(ops.mean(ops.ctc_loss(labels, predictions, lengths, steps)))
        return predictions


def captcha_ctc() -> Any:
    """Reads characters of an image: convolutions, LSTMs, and a loss in a layer; named inputs."""
    image = keras.Input((32, 12, 1), name="image")
    labels = keras.Input((4,), dtype="int32", name="label")
    x = layers.Conv2D(8, 3, activation="relu", padding="same")(image)
    x = layers.MaxPooling2D((2, 2))(x)
    x = layers.Reshape((16, 6 * 8))(x)
    x = layers.Dense(16, activation="relu")(x)
    x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(x)
    logits = layers.Dense(11, name="logits")(x)
    outputs = CTCLayer(name="ctc_loss")(labels, logits)
    return keras.Model({"image": image, "label": labels}, outputs)


def captchas(random: np.random.Generator, examples: int) -> Data:
    """Images, with the labels among the inputs."""
    image = random.normal(size=(examples, 32, 12, 1)).astype(np.float32)
    return {"image": image, "label": random.integers(1, 10, (examples, 4)).astype(np.int32)}, ()


def speech_ctc() -> Any:
    """Convolutions over a spectrogram and GRUs; CTC is the loss function."""
    spectrogram = keras.Input((None, 20))
    x = layers.Reshape((-1, 20, 1))(spectrogram)
    x = layers.Conv2D(4, (5, 5), strides=(2, 2), padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Reshape((-1, 10 * 4))(x)
    x = layers.Bidirectional(layers.GRU(16, return_sequences=True, reset_after=True))(x)
    return keras.Model(spectrogram, layers.Dense(9)(x))


def spectrograms(random: np.random.Generator, examples: int) -> Data:
    """Spectrograms and labels."""
    x = random.normal(size=(examples, 40, 20)).astype(np.float32)
    return x, random.integers(1, 8, (examples, 5)).astype(np.int32)


def wavenet() -> Any:
    """Causal, dilated convolutions with gates, residual and skip connections."""
    inputs = keras.Input((32, 1))
    x, skips = layers.Conv1D(8, 1)(inputs), []
    for dilation in (1, 2, 4, 8):
        options = {"dilation_rate": dilation, "padding": "causal"}
        gate = layers.Conv1D(8, 2, activation="sigmoid", **options)(x)
        value = layers.Conv1D(8, 2, activation="tanh", **options)(x)
        gated = layers.Multiply()([gate, value])
        skips.append(layers.Conv1D(8, 1)(gated))
        x = layers.Add()([x, layers.Conv1D(8, 1)(gated)])
    x = layers.Activation("relu")(layers.Add()(skips))
    return keras.Model(inputs, layers.Conv1D(1, 1)(x))


def waves(random: np.random.Generator, examples: int) -> Data:
    """Waves, and the same one step ahead."""
    phase = random.uniform(0, 6, (examples, 1, 1))
    x = np.sin(0.3 * np.arange(33)[None, :, None] + phase).astype(np.float32)
    return x[:, :-1], x[:, 1:]


@keras.saving.register_keras_serializable("zoo")  # type: ignore[untyped-decorator]
class MinimalCell(layers.Layer):  # type: ignore[misc]
    """A recurrent cell with weights of its own."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = self.state_size = units

    def build(self, input_shape: Any) -> None:
        """Create the weights."""
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), name="kernel")
        self.recurrent = self.add_weight(
            shape=(self.units, self.units), initializer="orthogonal", name="recurrent"
        )

    def call(self, inputs: Any, states: Any) -> Any:
        """The next output and state."""
        output = ops.tanh(ops.matmul(inputs, self.kernel) + ops.matmul(states[0], self.recurrent))
        return output, [output]

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "units": self.units}


def stacked_custom_cells() -> Any:
    """An RNN over cells that a person wrote, stacked with one of Keras."""
    cells = [MinimalCell(12), layers.GRUCell(8), MinimalCell(6)]
    return keras.Sequential(
        [keras.Input((LENGTH, 3)), layers.RNN(cells, return_sequences=False), layers.Dense(1)]
    )


def stateful_lstm() -> Any:
    """An LSTM that keeps its state from batch to batch."""
    inputs = keras.Input(batch_shape=(4, LENGTH, 3))
    return keras.Model(
        inputs, layers.Dense(1)(layers.LSTM(8, stateful=True, name="memory")(inputs))
    )


def conv_lstm() -> Any:
    """Predicts the next frames of a film."""
    return keras.Sequential(
        [
            keras.Input((None, 8, 8, 1)),
            layers.ConvLSTM2D(4, 3, padding="same", return_sequences=True, activation="relu"),
            layers.BatchNormalization(),
            layers.ConvLSTM2D(4, 1, padding="same", return_sequences=True, activation="relu"),
            layers.Conv3D(1, 3, activation="sigmoid", padding="same"),
        ]
    )


def films(random: np.random.Generator, examples: int) -> Data:
    """Films of noise that moves, and the same one frame ahead."""
    first = random.integers(2, size=(examples, 8, 8, 1)).astype(np.float32)
    frames = np.stack([np.roll(first, shift, axis=1) for shift in range(5)], axis=1)
    return frames[:, :-1], frames[:, 1:]


def named_entities() -> Any:
    """A class for each token of padded text; the loss is a class of its own."""
    inputs = keras.Input((LENGTH,), dtype="int64")
    x = layers.Embedding(WORDS, 16)(inputs)
    x = layers.Conv1D(16, 3, padding="same", activation="gelu")(x)
    return keras.Model(inputs, layers.Dense(5)(x))


@keras.saving.register_keras_serializable("zoo")  # type: ignore[untyped-decorator]
class NonPaddingLoss(keras.losses.Loss):  # type: ignore[misc]
    """The mean cross entropy of the tokens that are not padding."""

    def __init__(self, name: str = "custom_ner_loss") -> None:
        super().__init__(name=name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of a batch."""
        losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        mask = ops.cast(y_true > 0, losses.dtype)
        return ops.sum(losses * mask) / ops.sum(mask)


def token_labels(random: np.random.Generator, examples: int) -> Data:
    """Padded tokens, and a label for each."""
    tokens, _ = token_classes(random, examples)
    return tokens.astype(np.int64), np.where(tokens > 0, 1 + tokens % 4, 0)


def text_vectorization() -> Any:
    """Strings are the inputs: the layer that splits them is part of the model."""
    vectorize = layers.TextVectorization(max_tokens=20, output_sequence_length=5)
    vectorize.adapt(["a good film", "a bad film", "not good at all", "very very good"])
    inputs = keras.Input((1,), dtype="string")
    x = layers.Embedding(20, 8)(vectorize(inputs))
    x = layers.GlobalMaxPooling1D()(layers.Conv1D(8, 3, activation="relu")(x))
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def sentences(random: np.random.Generator, examples: int) -> Data:
    """Sentences and whether they praise."""
    texts = np.array(["a good film", "a bad film", "not good at all", "very very good"])
    index = random.integers(4, size=examples)
    return tf.constant(texts[index][:, None]).numpy(), np.isin(index, [0, 3]).astype(np.float32)


pattern = partial(pattern_of, "sequences")
ARCHITECTURES = (
    pattern(
        masked_bidirectional_lstm,
        "text classification, masks",
        token_classes,
        loss="sparse_categorical_crossentropy",
        metrics=("accuracy",),
    ),
    pattern(
        masked_gru_series, "Masking, TimeDistributed, weights of time steps", each_step, loss="mse"
    ),
    pattern(
        seq2seq_lstm,
        "encoder and decoder share states",
        one_hot_pairs,
        loss="categorical_crossentropy",
    ),
    pattern(captcha_ctc, "CTC by add_loss, no loss function", captchas),
    pattern(speech_ctc, "CTC as the loss function", spectrograms, loss=keras.losses.CTC()),
    pattern(wavenet, "causal, dilated convolutions", waves, loss="huber"),
    pattern(stacked_custom_cells, "cells that a person wrote", series, loss="mse"),
    pattern(
        stateful_lstm,
        "a state from batch to batch",
        series,
        loss="mse",
        checks=("refused",),
        refusal="stateful=True in memory",
    ),
    pattern(conv_lstm, "next frames, ConvLSTM2D", films, loss="binary_crossentropy"),
    pattern(
        named_entities, "a loss class that reads its own mask", token_labels, loss=NonPaddingLoss()
    ),
    pattern(
        text_vectorization,
        "strings as inputs",
        sentences,
        loss="binary_crossentropy",
        checks=("refused",),
        refusal="encode text and categories as integers first",
    ),
)
