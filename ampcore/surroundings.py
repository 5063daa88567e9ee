"""What TensorFlow and Keras take from their surroundings, settled before either is imported."""

import os


def settle() -> None:
    """Quiet TensorFlow's notes, and keep Keras from the settings in somebody's home folder.

    A keras.json there may name another backend or image layout, and a missing one is written.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ["KERAS_HOME"] = os.devnull
