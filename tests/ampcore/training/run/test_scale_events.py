import numpy as np

from ampcore.training.step.row_block import step_block
from ampcore.training.step.telemetry_columns import STEP_COLUMNS
from ampspec.telemetry import COLUMN_DTYPES, Event, EventType, StepBlock
from ampspec.telemetry.scale_events import MAX_EVENTS, scale_events

ROWS = np.array([[2.0, 8.0, 1.0, np.inf, 0.1], [1.5, 4.0, 0.0, 3.0, 0.1]], np.float32)


def test_rows_become_the_columns_of_a_block():
    block = step_block(5, STEP_COLUMNS[:5], ROWS, seconds=0.5, examples=32)
    assert block.names == tuple(COLUMN_DTYPES)
    assert block["skipped"].tolist() == [True, False]
    assert block["loss"].tolist() == [2.0, 1.5]
    assert block["step_time_s"].tolist() == [0.25, 0.25]
    assert block["examples"].tolist() == [32, 32]
    assert block.examples_per_s == 128.0


def test_extra_columns_come_after_the_standard_columns():
    rows = np.hstack([ROWS, [[3.0], [0.0]]]).astype(np.float32)
    block = step_block(
        0, (*STEP_COLUMNS[:5], "nonfinite_micro_batches"), rows, seconds=1.0, examples=1
    )
    assert block.names == (*COLUMN_DTYPES, "nonfinite_micro_batches")
    assert block["nonfinite_micro_batches"].tolist() == [3.0, 0.0]


def scales(loss_scale, skipped, **extras):
    return StepBlock(10, {"loss_scale": loss_scale, "skipped": skipped, **extras})


def change(before, after):
    return {"scale_before": before, "scale_after": after}


def test_skips_and_growths_become_events_with_the_scale_before_and_after():
    block = scales([8, 4, 4, 8, 8], [True, False, False, True, False])
    assert list(scale_events(block, {"model": 16.0})) == [
        Event(EventType.OVERFLOW, 10, change(8.0, 4.0)),
        Event(EventType.SCALE_GROWTH, 12, change(4.0, 8.0)),
        Event(EventType.OVERFLOW, 13, change(8.0, 8.0)),
        Event(EventType.SCALE_GROWTH, 14, change(8.0, 16.0)),
    ]


def test_events_of_several_networks_have_the_scale_of_each_network():
    own = {"loss_scale/generator": [8, 4], "loss_scale/discriminator": [4, 4]}
    block = scales([4, 4], [True, False], **own)
    after = {"generator": 4.0, "discriminator": 8.0}
    assert list(scale_events(block, after)) == [
        Event(
            EventType.OVERFLOW,
            10,
            change(4.0, 4.0)
            | {"networks": {"generator": change(8.0, 4.0), "discriminator": change(4.0, 4.0)}},
        ),
        Event(EventType.SCALE_GROWTH, 11, change(4.0, 8.0) | {"network": "discriminator"}),
    ]


def test_a_scale_that_grows_in_a_skipped_step_has_its_own_event():
    own = {"loss_scale/generator": [8], "loss_scale/discriminator": [4]}
    after = {"generator": 4.0, "discriminator": 8.0}
    events = list(scale_events(scales([4], [True], **own), after))
    assert [event.type for event in events] == [EventType.OVERFLOW, EventType.SCALE_GROWTH]


def test_an_overflow_event_counts_the_nonfinite_micro_batches():
    block = scales([8, 8], [True, True], nonfinite_micro_batches=[3.0, 1.0])
    found = [event.data["nonfinite_micro_batches"] for event in scale_events(block, {"model": 8.0})]
    assert found == [3, 1]


def test_an_overflow_event_has_the_known_cause():
    block = scales([8, 8], [True, True])
    first, second = scale_events(block, {"model": 8.0}, {11: {"cause": "bad data"}})
    assert "cause" not in first.data
    assert second.data["cause"] == "bad data"


def test_too_many_events_are_truncated_and_the_rest_is_counted():
    count = MAX_EVENTS + 50
    block = scales(np.ones(count), np.ones(count, bool))
    events = list(scale_events(block, {"model": 1.0}))
    assert len(events) == MAX_EVENTS + 1
    assert events[-1].type is EventType.WARNING
    assert events[-1].data["message"].startswith("50 more")
