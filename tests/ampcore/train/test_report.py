import numpy as np

from ampcore.series import COLUMNS, Event, EventType, StepBlock
from ampcore.train.evaluate import Evaluation
from ampcore.train.ledger import Ledger
from ampcore.train.report import MAX_EVENTS, scale_events, step_block

ROWS = np.array([[2.0, 8.0, 1.0, np.inf, 0.1], [1.5, 4.0, 0.0, 3.0, 0.1]], np.float32)


def test_rows_become_the_columns_of_a_block():
    block = step_block(5, ROWS, seconds=0.5, batch_size=32)
    assert block.names == tuple(COLUMNS)
    assert block["skipped"].tolist() == [True, False]
    assert block["loss"].tolist() == [2.0, 1.5]
    assert block["step_time_s"].tolist() == [0.25, 0.25]
    assert block["examples"].tolist() == [32, 32]
    assert block.examples_per_s == 128.0


def scales(loss_scale, skipped):
    return StepBlock(10, {"loss_scale": loss_scale, "skipped": skipped})


def test_skips_and_growths_become_events_with_the_scale_before_and_after():
    block = scales([8, 4, 4, 8, 8], [True, False, False, True, False])
    assert list(scale_events(block, next_scale=16.0)) == [
        Event(EventType.OVERFLOW, 10, {"scale_before": 8.0, "scale_after": 4.0}),
        Event(EventType.SCALE_GROWTH, 12, {"scale_before": 4.0, "scale_after": 8.0}),
        Event(EventType.OVERFLOW, 13, {"scale_before": 8.0, "scale_after": 8.0}),
        Event(EventType.SCALE_GROWTH, 14, {"scale_before": 8.0, "scale_after": 16.0}),
    ]


def test_a_flood_of_events_is_cut_and_the_rest_counted():
    count = MAX_EVENTS + 50
    events = list(scale_events(scales(np.ones(count), np.ones(count, bool)), next_scale=1.0))
    assert len(events) == MAX_EVENTS + 1
    assert events[-1].type is EventType.WARNING
    assert events[-1].data["message"].startswith("50 more")


def block(first_step, losses, skipped=False, seconds=1.0):
    rows = [[loss, 1.0, skipped, 1.0, 0.1] for loss in losses]
    return step_block(first_step, np.array(rows, np.float32), seconds, batch_size=10)


def test_the_ledger_adds_blocks_up_and_passes_everything_on_in_order():
    told = []
    ledger = Ledger(told.append, told.append)
    first, second = block(0, [3.0], seconds=100.0), block(1, [2.0, 1.0], skipped=True)
    ledger.add_block(first, 1.0)
    ledger.add_block(second, 1.0)
    ledger.add_evaluation(Evaluation(0.5, 0.75))
    assert told == [first]
    ledger.flush()
    assert told[1] == second
    assert [event.type for event in told[2:]] == ["overflow", "overflow", "evaluation"]
    assert told[-1] == Event(EventType.EVALUATION, 2, {"val_loss": 0.5, "val_accuracy": 0.75})
    assert (ledger.steps, ledger.skipped, ledger.final_loss) == (3, 2, 1.0)


def test_blocks_of_short_epochs_are_passed_on_as_one_before_their_events():
    told = []
    ledger = Ledger(told.append, told.append)
    for first_step in range(3):
        ledger.add_block(block(first_step, [1.0]), 1.0)
        ledger.add_evaluation(Evaluation(0.5, 0.75))
    ledger.flush()
    ledger.flush()
    assert [item.first_step for item in told if isinstance(item, StepBlock)] == [0, 1]
    assert [item.step for item in told if isinstance(item, Event)] == [0, 1, 2]


def test_throughput_leaves_the_first_block_out_unless_it_is_alone():
    ledger = Ledger(None, None)
    assert ledger.examples_per_s == 0.0
    ledger.add_block(block(0, [3.0], seconds=100.0), 1.0)
    assert ledger.examples_per_s == 0.1
    ledger.add_block(block(1, [2.0, 1.0], seconds=0.5), 1.0)
    assert ledger.examples_per_s == 40.0


def test_the_first_loss_that_is_not_finite_and_was_applied_is_warned_of_once():
    events = []
    ledger = Ledger(None, events.append)
    ledger.add_block(block(0, [np.nan, 1.0], skipped=True), 1.0)
    ledger.add_block(block(2, [1.0, np.nan, np.inf]), 1.0)
    ledger.add_block(block(5, [np.nan]), 1.0)
    ledger.flush()
    warnings = [event for event in events if event.type is EventType.WARNING]
    assert [(event.step, event.data["code"]) for event in warnings] == [(3, "non_finite_loss")]
