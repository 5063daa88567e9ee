"""Sets the environment variables of TensorFlow and Keras, before either is imported."""

import os


def configure() -> None:
    """Reduce TensorFlow's logging, and keep Keras from reading the settings in the home folder.

    A keras.json there may set another backend or image layout; Keras writes it if it is missing.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ["KERAS_HOME"] = os.devnull
