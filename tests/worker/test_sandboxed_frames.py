"""The check of what a sandboxed trainer reports."""

from typing import Any

import numpy as np
import pytest

from ampcore.telemetry import StepBlock, array_codec
from ampcore.telemetry.codec import decode
from ampcore.telemetry.frames import Frame, FrameType
from ampcore.telemetry.range_samples import RangeSample
from tests.range_layers import GOOD
from tests.tables import every_row
from worker.sandboxed_frames import MAX_COLUMNS, MAX_STEP, checked

STEPS = {
    "loss": np.array([0.5, np.nan, np.inf], np.float32),
    "skipped": np.array([False, True, False]),
    "step_time_s": np.array([0.1, 0.2, 0.3], np.float32),
    "examples": np.array([4, 5, 6], np.int32),
}


def steps(header: dict[str, Any] | None = None, **columns: Any) -> Frame:
    given = {name: values for name, values in {**STEPS, **columns}.items() if values is not None}
    header = {"first_step": 7} if header is None else header
    return Frame(FrameType.STEPS, header, array_codec.encode(given), size_bytes=99)


def test_a_block_is_encoded_again_with_its_own_sums() -> None:
    false = {"first_step": 7, "count": 1, "stats": {"skipped": 9}, "last": {"loss": "x"}}
    frame = checked(steps({**false, "scale_health": "stable"}))
    assert decode(frame.payload) == StepBlock(7, STEPS)
    assert (frame.header["first_step"], frame.header["count"]) == (7, 3)
    assert (frame.header["stats"]["skipped"], frame.header["stats"]["examples"]) == (1, 15)
    assert frame.header["stats"]["best_loss"] == 0.5
    assert frame.header["last"]["loss"] == float("inf")
    assert frame.header["scale_health"] == "stable"
    assert frame.size_bytes == 99


@every_row(
    ("frame", "words"),
    [
        (Frame(FrameType.STEPS, {"first_step": 0}, b"ARROW1"), "expected encoded arrays"),
        (
            Frame(FrameType.STEPS, {"first_step": 0}, array_codec.encode({})),
            "columns of one length",
        ),
        (steps(loss=np.zeros(2, np.float32)), "columns of one length"),
        (steps(**{f"c{n}": np.zeros(3, np.float32) for n in range(MAX_COLUMNS)}), "1 to 256"),
        (steps(loss=np.zeros(3, np.float64)), "the dtype of loss: expected"),
        (steps(examples=np.zeros(3, np.int64)), "the dtype of examples: expected"),
        (steps(examples=np.array([-1, 0, 0], np.int32)), "examples: expected numbers of 0 or more"),
        (steps(step_time_s=np.full(3, np.nan, np.float32)), "step_time_s: expected numbers of 0"),
        (steps(step_time_s=None), "step_time_s: expected numbers of 0"),
        (steps(**{"a b": np.zeros(3, np.float32)}), "the name of a column"),
        (steps(step=np.zeros(3, np.float32)), "the name of a column"),
        (steps({"first_step": -1}), "first_step: expected an integer"),
        (steps({"first_step": True}), "first_step: expected an integer"),
        (steps({"first_step": MAX_STEP}), "the end of a block: expected an integer"),
        (steps({"first_step": 0, "scale_health": []}), "scale_health: expected at most"),
        (steps({}), "first_step: expected an integer"),
        (Frame(FrameType.RUNNING, {"total_steps": "5"}), "total_steps: expected an integer"),
        (Frame(FrameType.EVENT, {"event": "warning", "step": 1.5, "data": {}}), "the step of an"),
        (Frame(FrameType.EVENT, {"event": "warning", "step": 1, "data": []}), "an object"),
        (Frame(FrameType.EVENT, {"event": [], "step": 1, "data": {}}), "the type of an event"),
        (Frame(FrameType.EVENT, {"event": "unheard", "step": 1, "data": {}}), "unheard"),
        (
            Frame(FrameType.EVENT, {"event": "model_saved", "step": 1, "data": {"file": 5}}),
            "the event's file",
        ),
        (
            Frame(FrameType.EVENT, {"event": "model_saved", "step": 1, "data": {"weights": []}}),
            "the event's weights",
        ),
    ],
)
def test_what_no_trainer_sends_is_refused(frame: Frame, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked(frame)


@every_row(
    "frame",
    [
        Frame(FrameType.EVENT, {"event": "warning", "step": None, "data": {"code": "x"}}),
        Frame(FrameType.RUNNING, {"total_steps": 5, "first_step": 0, "policy": "float32"}),
        Frame(FrameType.SUCCEEDED, {"summary": {}}),
        Frame(FrameType.STOPPED),
    ],
)
def test_other_frames_are_kept(frame: Frame) -> None:
    assert checked(frame) == frame


def test_a_range_sample_is_checked_and_keeps_only_what_belongs_to_it() -> None:
    data = RangeSample(3, {"model": 2.0}, [GOOD]).to_json()
    header = {"event": "ranges", "step": 3, "data": {**data, "more": [1] * 9}}
    assert checked(Frame(FrameType.EVENT, header)).header["data"] == data


@every_row(
    "change",
    [
        {"scales": {"model": 0}},
        {"scales": [1]},
        {"layers": [{"layer": "a"}]},
        {"layers": [GOOD.to_json() | {"layer": "a" * 2000}]},
        {"layers": [GOOD.to_json() | {"activations": {"first_exponent": 0, "counts": ["x"]}}]},
        {
            "layers": [
                GOOD.to_json()
                | {"activations": GOOD.to_json()["activations"] | {"first_exponent": 10**6}}
            ]
        },
    ],
)
def test_a_sample_that_no_trainer_sends_is_refused(change: dict[str, Any]) -> None:
    data = RangeSample(3, {"model": 2.0}, [GOOD]).to_json()
    header = {"event": "ranges", "step": 3, "data": data | change}
    with pytest.raises(ValueError, match="expected a range sample"):
        checked(Frame(FrameType.EVENT, header))
