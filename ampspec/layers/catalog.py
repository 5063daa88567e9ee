"""Every supported kind of layer by name, and the Keras layers that are not supported."""

from typing import Final

from ampspec.layers.base import Layer, layer_kinds
from ampspec.layers.kinds import (
    activations,
    attention,
    convolution,
    core,
    dropout,
    merging,
    normalization,
    pooling,
    preprocessing,
    recurrent,
    reshaping,
    wrapping,
)

MODULES: Final = (
    core,
    activations,
    convolution,
    pooling,
    normalization,
    dropout,
    recurrent,
    wrapping,
    attention,
    merging,
    reshaping,
    preprocessing,
)
LAYERS: Final[dict[str, type[Layer]]] = {
    kind.__name__: kind for module in MODULES for kind in layer_kinds(module)
}
"""The layers of the grammar by Keras class name, in the order of the reference."""

_CODE: Final = "it runs code that is not part of the spec"
_CELL: Final = "a cell is part of a recurrent layer: write LSTM, GRU or SimpleRNN"
_AUGMENTATION: Final = "random augmentation belongs in data.augmentation"
_VOCABULARY: Final = "text and categories are encoded by data.preprocessing"
_SOUND: Final = "audio features must be computed before the upload"
_WINDOWS: Final = "write a pooling layer with the size of its windows"

LEFT_OUT: Final[dict[str, str]] = {
    "Lambda": "it runs Python code",
    "TFSMLayer": "it loads and runs a saved program",
    "FlaxLayer": _CODE,
    "JaxLayer": _CODE,
    "TorchModuleWrapper": _CODE,
    "Layer": _CODE,
    "Wrapper": _CODE,
    "Pipeline": _CODE,
    "RNN": "its cell may be any code: write LSTM, GRU or SimpleRNN",
    "GRUCell": _CELL,
    "LSTMCell": _CELL,
    "SimpleRNNCell": _CELL,
    "StackedRNNCells": _CELL,
    "InputLayer": "write `inputs` of the model",
    "SpectralNormalization": "its weights change outside of the optimizer's update",
    "ReversibleEmbedding": "one layer works in two directions, with a call argument",
    "ActivityRegularization": "the training loss has penalties of weights only",
    "AdaptiveAveragePooling1D": _WINDOWS,
    "AdaptiveAveragePooling2D": _WINDOWS,
    "AdaptiveAveragePooling3D": _WINDOWS,
    "AdaptiveMaxPooling1D": _WINDOWS,
    "AdaptiveMaxPooling2D": _WINDOWS,
    "AdaptiveMaxPooling3D": _WINDOWS,
    "HashedCrossing": _VOCABULARY,
    "Hashing": _VOCABULARY,
    "IntegerLookup": _VOCABULARY,
    "StringLookup": _VOCABULARY,
    "TextVectorization": _VOCABULARY,
    "MelSpectrogram": _SOUND,
    "STFTSpectrogram": _SOUND,
    "MaxNumBoundingBoxes": _AUGMENTATION,
    "AugMix": _AUGMENTATION,
    "AutoContrast": _AUGMENTATION,
    "ContrastLimitedAdaptiveHistogramEqualization": _AUGMENTATION,
    "CutMix": _AUGMENTATION,
    "Equalization": _AUGMENTATION,
    "MixUp": _AUGMENTATION,
    "RandAugment": _AUGMENTATION,
    "RandomBrightness": _AUGMENTATION,
    "RandomColorDegeneration": _AUGMENTATION,
    "RandomColorJitter": _AUGMENTATION,
    "RandomContrast": _AUGMENTATION,
    "RandomCrop": _AUGMENTATION,
    "RandomElasticTransform": _AUGMENTATION,
    "RandomErasing": _AUGMENTATION,
    "RandomFlip": _AUGMENTATION,
    "RandomGaussianBlur": _AUGMENTATION,
    "RandomGrayscale": _AUGMENTATION,
    "RandomHue": _AUGMENTATION,
    "RandomInvert": _AUGMENTATION,
    "RandomPerspective": _AUGMENTATION,
    "RandomPosterization": _AUGMENTATION,
    "RandomRotation": _AUGMENTATION,
    "RandomSaturation": _AUGMENTATION,
    "RandomSharpness": _AUGMENTATION,
    "RandomShear": _AUGMENTATION,
    "RandomTranslation": _AUGMENTATION,
    "RandomZoom": _AUGMENTATION,
    "Solarization": _AUGMENTATION,
}
"""The classes of `keras.layers` that are not supported, and why."""

LEFT_OUT_ARGUMENTS: Final[dict[str, str]] = {
    "activity_regularizer": "the training loss has penalties of weights only",
    "data_format": "the channels are last, as TensorFlow's CPU kernels require",
    "lora_rank": "adapters of large models are not part of the grammar",
    "lora_alpha": "adapters of large models are not part of the grammar",
    "quantization_config": "trained models are quantized, not models in training",
    "gptq_unpacked_column_size": "trained models are quantized, not models in training",
    "seed": "the seed of the job decides",
    "weights": "values come from a checkpoint",
    "dtype": "`precision` decides",
    "sparse": "the next layers take dense tensors",
    "return_state": "a layer has one output",
    "stateful": "batches are independent",
    "unroll": "the compiled loop decides",
    "use_cudnn": "Keras decides",
    "flash_attention": "Keras decides",
    "sliding_window": "not supported",
    "use_gate": "not supported",
    "attention_axes": "sequences have one axis of steps",
    "backward_layer": "it always has the same arguments as the forward layer",
    "renorm": "its statistics depend on the step",
    "renorm_clipping": "it belongs to renorm",
    "renorm_momentum": "it belongs to renorm",
    "synchronized": "the statistics are those of the job's batch",
    "num_bins": "boundaries are part of the spec, not learned from data",
    "epsilon": "it belongs to num_bins",
    "output_mode": "CategoryEncoding turns the indices into vectors",
    "fill_mode": "Keras supports only constant",
}
"""Keras layer arguments without a field, and why; every other argument has a field."""
