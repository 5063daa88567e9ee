"""A Keras model with two inputs and two outputs is trained as a job, and used with Keras alone."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("stack")

FOLDER = Path(__file__).parents[2] / "examples" / "custom-keras-model"


def metrics_in(text: str) -> dict[str, float]:
    found = re.findall(r"^(val_\w+): (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def test_an_own_keras_model_is_trained_as_a_job_and_used(terminal: Any) -> None:
    trained = metrics_in(terminal.python(FOLDER / "submit.py", "out"))
    assert trained["val_rented_accuracy"] > 0.85
    assert trained["val_price_mae"] < 0.5
    predicted = metrics_in(terminal.python(FOLDER / "predict.py", "out/attempt-1"))
    assert predicted == pytest.approx({name: trained[name] for name in predicted}, abs=0.01)
    assert len(predicted) == 2
