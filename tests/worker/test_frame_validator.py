"""The check of what a trainer reports."""

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings, strategies

from ampspec.errors import TrainingError
from ampspec.jobs import Reason
from ampspec.telemetry import EventType, StepBlock
from ampspec.telemetry.frames import Frame, FrameReader, FrameType, write_frame
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.ranges.range_samples import RangeSample
from ampspec.telemetry.steps import array_codec
from ampspec.telemetry.steps.codec import decode
from tests.range_layers import GOOD
from tests.tables import every_row
from worker.trainer.frame_schema import MAX_STEP, REASONS_OF_OTHERS
from worker.trainer.frame_validator import MAX_COLUMNS, FrameValidator, InvalidTelemetry

COLUMNS = {
    "loss": np.array([0.5, np.nan, np.inf], np.float32),
    "skipped": np.array([False, True, False]),
    "step_time_s": np.array([0.1, 0.2, 0.3], np.float32),
    "examples": np.array([4, 5, 6], np.int32),
}
READY = Frame(FrameType.READY, {"hardware": {"device": "cpu"}, "versions": {"keras": "3"}})
RUNNING = Frame(FrameType.RUNNING, {"total_steps": 50, "first_step": 7, "parameters": 9})
SUCCEEDED = Frame(FrameType.SUCCEEDED, {"summary": {"steps": 3, "final_loss": float("nan")}})


def steps(header: dict[str, Any] | None = None, **changed: Any) -> Frame:
    columns = {
        name: values for name, values in {**COLUMNS, **changed}.items() if values is not None
    }
    header = {"first_step": 7} if header is None else header
    return Frame(FrameType.STEPS, header, array_codec.encode(columns))


def event(event_type: object, step: object = 1, **data: Any) -> Frame:
    return Frame(FrameType.EVENT, {"event": event_type, "step": step, "data": data})


def succeeded(**summary: Any) -> Frame:
    return Frame(FrameType.SUCCEEDED, {"summary": summary})


def nested(levels: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(levels - 1):
        document = {"x": document}
    return document


def validated(*frames: Frame) -> list[Frame]:
    """The frames after a ready frame and a running frame, as a worker reads them from a pipe."""
    return validated_from_start([READY, RUNNING, *frames])[2:]


def validated_from_start(frames: Sequence[Frame]) -> list[Frame]:
    pipe, validator = io.BytesIO(), FrameValidator()
    for frame in frames:
        write_frame(pipe, frame)
    return [validator.validate(frame) for frame in FrameReader().feed(pipe.getvalue())]


def test_a_block_is_encoded_with_sums_that_the_worker_computes() -> None:
    false = {"first_step": 7, "count": 1, "stats": {"skipped": 9}, "last": {"loss": "x"}}
    [frame] = validated(steps({**false, "scale_health": "steady"}))
    assert decode(frame.payload) == StepBlock(7, COLUMNS)
    assert (frame.header["first_step"], frame.header["count"]) == (7, 3)
    assert (frame.header["stats"]["skipped"], frame.header["stats"]["examples"]) == (1, 15)
    assert frame.header["stats"]["best_loss"] == 0.5
    assert frame.header["last"]["loss"] == float("inf")
    assert frame.header["scale_health"] == "steady"
    assert frame.size_bytes > 0


def test_fields_that_the_worker_does_not_use_are_left_out() -> None:
    running = validated_from_start([READY, RUNNING])[1]
    assert running.header == {"total_steps": 50, "first_step": 7, "policy": None}


@every_row(
    ("frame", "words"),
    [
        (Frame(FrameType.STEPS, {"first_step": 7}, b"ARROW1"), "expected encoded arrays"),
        (
            Frame(FrameType.STEPS, {"first_step": 7}, array_codec.encode({})),
            "columns of one length",
        ),
        (steps(loss=np.zeros(2, np.float32)), "columns of one length"),
        (steps(**{f"c{n}": np.zeros(3, np.float32) for n in range(MAX_COLUMNS)}), "at most 256"),
        (steps(loss=np.zeros(3, np.float64)), "the dtype of loss: expected"),
        (steps(examples=np.zeros(3, np.int64)), "the dtype of examples: expected"),
        (steps(examples=np.array([-1, 0, 0], np.int32)), "examples: expected finite numbers"),
        (steps(step_time_s=np.full(3, np.nan, np.float32)), "step_time_s: expected finite"),
        (steps(step_time_s=np.full(3, np.inf, np.float32)), "step_time_s: expected finite"),
        (steps(step_time_s=None), "expected a column step_time_s"),
        (steps(loss=None), "expected a column loss"),
        (steps(**{"a b": np.zeros(3, np.float32)}), "the name of a column"),
        (steps(step=np.zeros(3, np.float32)), "the name of a column"),
        (steps({"first_step": -1}), "first_step: Input should be greater than or equal to 0"),
        (steps({"first_step": True}), "first_step: Input should be a valid integer"),
        (steps({"first_step": 8}), "first_step: expected 7; received 8"),
        (steps({"first_step": 6}), "first_step: expected 7; received 6"),
        (steps({"first_step": 7, "scale_health": []}), "scale_health: Input should be a valid"),
        (steps({}), "first_step: Field required"),
        (event("warning", 1.5), "step: Input should be a valid integer"),
        (Frame(FrameType.EVENT, {"event": "warning", "step": 1, "data": []}), "data: Input should"),
        (event([]), "event: Input should be"),
        (event("unheard"), "event: Input should be"),
        (event("state", state="succeeded"), "an event of a trainer; received state"),
        (event("edited", priority=9), "an event of a trainer; received edited"),
        (event("allocation", state="LOST"), "an event of a trainer; received allocation"),
        (event("model_saved", file=5), "data.file: Input should be a valid string"),
        (event("model_saved", file="m", weights=[]), "data.weights: Input should be a valid"),
        (event("checkpoint_saved"), "data.file: Field required"),
        (event("evaluation", None, val_loss=0.5), "step: expected the step of the evaluation"),
        (event("warning", x=nested(32)), "data: expected JSON nested at most 32 levels deep"),
        (event("warning", x=10**30), "data: expected integers of at most 64 bits"),
        (succeeded(x="x" * 2**20), "its header: expected at most"),
        (succeeded(x=nested(900)), "summary: expected JSON nested at most 32 levels deep"),
        (succeeded(steps=10**30), "summary: expected integers of at most 64 bits"),
        (succeeded(steps=2**60), "summary.steps: Input should be less than or equal to"),
        (succeeded(steps=1.5), "summary.steps: Input should be a valid integer"),
        (succeeded(metrics=[]), "summary.metrics: Input should be a valid dictionary"),
        (succeeded(policy="x" * 201), "summary.policy: String should have at most 200"),
        (
            Frame(FrameType.SUCCEEDED, {"summary": []}),
            "summary: Input should be a valid dictionary",
        ),
        (Frame(FrameType.SUCCEEDED, {}), "summary: Field required"),
        (Frame(FrameType.FAILED, {"reason": "because", "message": "x"}), "reason: Input should be"),
        (
            Frame(FrameType.FAILED, {"reason": "code_failed", "message": {}}),
            "message: expected text",
        ),
        (Frame(FrameType.FAILED, {"reason": "worker_lost", "message": "x"}), "reason of a trainer"),
        (Frame(FrameType.FAILED, {"reason": "run_lost", "message": "x"}), "reason of a trainer"),
        (Frame(FrameType.STOPPED, {}, b"x"), "its payload: expected no bytes"),
        (READY, "expected one ready frame"),
        (RUNNING, "expected one running frame"),
    ],
)
def test_what_no_trainer_sends_is_refused(frame: Frame, words: str) -> None:
    with pytest.raises(InvalidTelemetry) as refused:
        validated(frame)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 2000


@every_row(
    ("frames", "words"),
    [
        ([RUNNING], "expected one ready frame"),
        ([READY, steps()], "expected a running frame before the first steps"),
        ([READY, RUNNING, steps(), steps()], "first_step: expected 10; received 7"),
        ([READY, RUNNING, steps(), steps({"first_step": 9})], "expected 10; received 9"),
        ([READY, SUCCEEDED, SUCCEEDED], "expected no frame after succeeded"),
        (
            [READY, RUNNING, Frame(FrameType.ACTIVITY, {"activity": "uploading"})],
            "activity: expected an activity of a trainer; received uploading",
        ),
        (
            [READY, Frame(FrameType.RUNNING, {"total_steps": "5", "first_step": 0})],
            "total_steps: Input should be a valid integer",
        ),
        (
            [
                READY,
                Frame(FrameType.RUNNING, {"total_steps": 5, "first_step": MAX_STEP}),
                steps({"first_step": MAX_STEP}),
            ],
            "the end of a block: expected at most",
        ),
        *(
            (
                [
                    READY,
                    Frame(FrameType.RUNNING, {"total_steps": 5, "first_step": 0, "policy": policy}),
                ],
                "policy: String should match pattern",
            )
            for policy in ("x" * 33, "a\0b", "")
        ),
        ([Frame(FrameType.READY, {"hardware": [], "versions": {}})], "hardware: Input should be"),
        ([Frame(FrameType.READY, {"versions": {"keras": [1]}})], "versions.keras: Input should"),
    ],
)
def test_frames_in_another_order_are_refused(frames: Sequence[Frame], words: str) -> None:
    with pytest.raises(InvalidTelemetry) as refused:
        validated_from_start(frames)
    assert words in str(refused.value)


def test_the_columns_of_all_blocks_together_are_bounded() -> None:
    def block(number: int) -> Frame:
        extra = {f"c{number}-{n}": np.zeros(3, np.float32) for n in range(200)}
        return steps({"first_step": 7 + 3 * number}, **extra)

    assert validated(block(0))
    with pytest.raises(InvalidTelemetry, match="the columns of an attempt: expected at most 256"):
        validated(block(0), block(1))


def test_what_trainers_send_is_accepted() -> None:
    frames = [
        event("warning", None, code="x", nested=nested(30)),
        event("evaluation", 9, val_loss=float("inf")),
        event("checkpoint_saved", 9, file="checkpoints/x", size_bytes=3, seconds=0.1),
        event("model_saved", 9, file="m", weights=None),
        event("explanation", 9, examples={"by_loss": []}, file=[]),
        steps({"first_step": 7, "scale_health": None}),
        steps({"first_step": 10}, **{"loss/generator": np.zeros(3, np.float32)}),
        succeeded(steps=13, best=None, stopped_early={"epoch": 1}, val_loss=0.25, more=[1]),
    ]
    accepted = validated(*frames)
    assert [frame.type for frame in accepted] == [frame.type for frame in frames]
    assert json.dumps(accepted[-1].header) == json.dumps(frames[-1].header)
    assert accepted[2].header == frames[2].header


def test_the_description_of_a_machine_can_be_stored() -> None:
    hardware = {"device": "a\0b", "memory_bytes": float("inf")}
    [ready] = validated_from_start([Frame(FrameType.READY, {"hardware": hardware})])
    assert ready.header["hardware"] == {"device": "a\ufffdb", "memory_bytes": "Infinity"}


def test_names_in_any_encoding_are_accepted() -> None:
    """A trainer's messages and metrics may name files and columns of people."""
    name = "caf\udce9"
    failed = Frame(FrameType.FAILED, {"reason": "invalid_data", "message": f"No {name}."})
    assert validated(failed)[0].header["message"] == "No caf?."
    frames = [event("warning", 1, **{name: name}), succeeded(metrics={f"val_{name}": 1.0})]
    assert [frame.header for frame in validated(*frames)] == [frame.header for frame in frames]


def test_every_error_of_the_trainer_has_a_reason_that_is_accepted() -> None:
    for error in (TrainingError, *all_subclasses(TrainingError)):
        if isinstance(getattr(error, "reason", None), Reason):
            header = {"reason": error.reason, "message": "x"}
            assert validated(Frame(FrameType.FAILED, header))[0].header["reason"] == error.reason


def all_subclasses(base: type) -> list[type]:
    return [subclass for sub in base.__subclasses__() for subclass in (sub, *all_subclasses(sub))]


def test_a_trainer_that_was_stopped_before_its_job_began_may_end() -> None:
    stopped = Frame(FrameType.STOPPED)
    assert validated_from_start([READY, stopped])[-1] == stopped


def test_a_range_sample_is_checked_and_keeps_only_what_belongs_to_it() -> None:
    data = RangeSample(3, {"model": 2.0}, [GOOD]).to_json()
    [frame] = validated(event("ranges", 3, **data, more=[1] * 9))
    assert frame.header["data"] == data


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
    with pytest.raises(InvalidTelemetry, match="expected a range sample"):
        validated(event("ranges", 3, **(data | change)))


FIELDS = (
    *("event", "step", "data", "summary", "reason", "message", "first_step", "total_steps"),
    *("policy", "hardware", "versions", "scale_health", "file", "signature", "scales", "layers"),
)
JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-(2**70), 2**70)
    | strategies.floats()
    | strategies.text(max_size=5)
    | strategies.sampled_from([*EventType, *Reason]),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(strategies.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
HEADERS = strategies.dictionaries(strategies.sampled_from(FIELDS), JSON, max_size=6)


@settings(max_examples=400, deadline=None)
@given(strategies.sampled_from(list(FrameType)), HEADERS, strategies.binary(max_size=20))
def test_any_frame_is_refused_or_can_be_stored_and_read(
    frame_type: FrameType, header: dict[str, Any], payload: bytes
) -> None:
    try:
        [accepted] = validated(Frame(frame_type, header, payload))
    except InvalidTelemetry as refused:
        str(refused).encode()
    else:
        orjson.dumps(json_safe(accepted.header))


def test_each_reason_is_found_by_trainers_or_by_others():
    """Fails if a new reason is in neither list: a trainer must not report that of a worker."""
    of_trainers = {
        *(Reason.INVALID_DATA, Reason.INVALID_SPEC, Reason.CODE_FAILED, Reason.UNSUPPORTED_DEVICE),
        *(Reason.NON_FINITE_LOSS, Reason.NON_FINITE_RESULT, Reason.SKIP_BUDGET_EXCEEDED),
        *(Reason.OUT_OF_MEMORY, Reason.INVALID_CHECKPOINT, Reason.INVALID_WEIGHTS),
        *(Reason.CHECKPOINT_FAILED, Reason.RANK_LOST, Reason.RANKS_DIFFER, Reason.PORT_TAKEN),
        Reason.INTERNAL_ERROR,
    }
    assert of_trainers.isdisjoint(REASONS_OF_OTHERS)
    assert of_trainers | set(REASONS_OF_OTHERS) == set(Reason)
