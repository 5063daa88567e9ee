"""Each planted fault gets its attribution, from the start of the run or from a checkpoint."""

import json
from contextlib import suppress

import keras
import numpy as np
import pytest
from typer.testing import CliRunner

from ampcore import JobSpec
from ampcore.cli.app import app
from ampcore.training import Trainer
from ampcore.training.explain.step_explainer import StepExplainer, StepRecord
from ampcore.training.explain.step_replay import ReplayStopped
from ampcore.training.jobs.from_keras import keras_job
from ampcore.training.jobs.keras_arguments import loss_scale_section
from ampcore.training.jobs.training_job import training_job
from ampcore.training.step.step_runner import StepRunner
from ampspec.api.job.explanation_text import explanation_lines
from ampspec.errors import InvalidData, NonFiniteResult, SkipBudgetExceeded
from ampspec.telemetry import EventType

ROWS, WIDTH, BATCH = 1600, 6, 32
GRAPH = {"runtime": {"engine": "graph"}, "telemetry": {"ranges": {"enabled": False}}}
BAD_ROW = 40 * BATCH + 4
STEP_EVENTS = (EventType.OVERFLOW, EventType.LOSS_SPIKE, EventType.GRAD_NORM_JUMP)
RECORDED = ("loss", "grad_norm", "loss_scale", "skipped")


def layers_of(*hidden):
    dense = [keras.layers.Dense(8, activation="relu"), *hidden, keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((WIDTH,)), *dense])


def make_job(damage, model, loss_scale=None, **sections):
    """A job whose data may be damaged; each has its own copy of the model."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.int32)
    damage(x)
    optimizer = sections.pop("optimizer", "sgd")
    if loss_scale is not None:
        sections["loss_scale"] = loss_scale_section(loss_scale)
    return keras_job(
        model(),
        data=(x, y),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        loss_weights=None,
        optimizer=optimizer,
        metrics=(),
        validation_data=None,
        validation_split=0.0,
        batch_size=BATCH,
        steps_per_epoch=None,
        shuffle=False,
        sections={**GRAPH, "train": {"epochs": 1}, **sections},
    )


@pytest.fixture
def explained(tmp_path):
    """Trains a job, and explains one of its steps with what the run recorded."""

    def run(step=None, damage=lambda x: None, model=layers_of, changes=None, **sections):
        blocks, events = [], []
        trainer = Trainer(make_job(damage, model, **sections), output_dir=tmp_path)
        with suppress(NonFiniteResult, SkipBudgetExceeded):  # a run with a fault may fail
            trainer.run(blocks.append, events.append)
        if step is None:
            step = next(event.step for event in events if event.type in STEP_EVENTS)
        if callable(step):
            step = step(np.concatenate([block["loss"] for block in blocks]))
        [block] = [block for block in blocks if block.first_step <= step < block.end_step]
        values = {name: block[name][step - block.first_step].item() for name in RECORDED}
        record = StepRecord(values | (changes or {}), "graph")
        job = make_job(damage, model, **sections)
        return StepExplainer(job, tmp_path / "checkpoints", step, record).run()

    return run


def damage_row(value):
    def damage(x):
        x[BAD_ROW, 2] = value

    return damage


def test_a_row_with_inf_is_attributed_to_the_data_and_shown(explained):
    found = explained(
        damage=damage_row(np.inf), precision={"policy": "mixed_float16"}, train={"epochs": 1}
    )
    assert (found["kind"], found["attribution"]) == ("skip", "data")
    assert found["step"] == BAD_ROW // BATCH
    [example] = found["examples"]["shown"]
    assert (example["example"], example["position"]) == (BAD_ROW, BAD_ROW % BATCH)
    assert example["inputs"][""]["values"][0] == {"name": "2", "value": "Infinity"}
    assert str(BAD_ROW) in found["sentence"]
    assert found["advice"].startswith("Repair or remove")


def test_an_outlier_in_the_data_without_a_skip_is_attributed_to_the_data(explained):
    found = explained(
        damage=damage_row(1e4),
        optimizer={"kind": "sgd", "learning_rate": 1e-12},
    )
    assert found["attribution"] == "data"
    assert (found["kind"], found["step"]) == ("loss_spike", BAD_ROW // BATCH)
    assert found["examples"]["shown"][0]["example"] == BAD_ROW


def test_a_jump_of_the_gradient_norm_alone_is_attributed_to_the_data(explained):
    """With weights of 0 the loss of every example is the same; the gradient is not."""
    found = explained(
        damage=damage_row(1e4),
        model=lambda: keras.Sequential(
            [keras.Input((WIDTH,)), keras.layers.Dense(2, kernel_initializer="zeros")]
        ),
        optimizer={"kind": "sgd", "learning_rate": 1e-12},
    )
    assert (found["kind"], found["attribution"]) == ("grad_norm_jump", "data")
    assert found["step"] == BAD_ROW // BATCH
    assert "gradient norm" in found["sentence"]


@pytest.mark.parametrize("skips", [True, False])
def test_a_loss_that_is_not_finite_without_a_loss_scale_is_attributed_to_the_data(explained, skips):
    """Without the check the step itself damages the weights."""
    options = {"train": {"steps": 41}, "guard": {"skip_nonfinite": skips}}
    found = explained(step=BAD_ROW // BATCH, damage=damage_row(np.inf), **options)
    kind = "skip" if skips else "nonfinite_loss"
    assert (found["kind"], found["attribution"]) == (kind, "data")
    assert [one["example"] for one in found["examples"]["shown"]] == [BAD_ROW]
    assert found["advice"].startswith("Repair or remove")


def test_a_loss_scale_that_is_too_high_is_attributed_to_it_with_the_scale_that_fits(explained):
    scale = {"mode": "dynamic", "initial": 2.0**24}
    found = explained(precision={"policy": "mixed_float16"}, loss_scale=scale)
    assert (found["kind"], found["attribution"], found["step"]) == ("skip", "loss_scale", 0)
    own, *lower = [row for row in found["tried"] if row["dtype"] == "float16"]
    assert own["is_own"]
    assert not own["finite_gradients"]
    assert any(row["finite_gradients"] for row in lower)
    assert found["finite_below"] < 2.0**24
    assert found["sentence"].endswith("the gradients of these examples are finite.")
    assert found["advice"].startswith("No action needed")
    first = [row for row in found["layers"] if row.get("is_first")]
    assert len(first) == 1
    assert first[0]["backward"]["inf"] + first[0]["backward"]["nan"] > 0


def overflowing():
    return layers_of(
        keras.layers.Dense(
            8, kernel_initializer=keras.initializers.Constant(1e5), name="too_large"
        ),
        keras.layers.Dense(8, kernel_initializer=keras.initializers.Constant(1e-6)),
    )


def test_a_layer_that_overflows_at_any_scale_is_attributed_to_the_operation(explained):
    found = explained(
        model=overflowing,
        precision={"policy": "mixed_float16"},
        train={"steps": 3},
        guard={"max_consecutive_skips": 100},
    )
    assert (found["kind"], found["attribution"]) == ("skip", "operation")
    [first] = [row for row in found["layers"] if row.get("is_first")]
    assert "too_large" in first["layer"]
    assert "too_large" in found["sentence"] + found["advice"]
    in_float32 = found["tried"][-1]
    assert in_float32["dtype"] == "float32"
    assert in_float32["finite_gradients"]


@pytest.mark.slow
def test_a_bad_learning_rate_is_attributed_to_the_weights(explained):
    found = explained(
        step=lambda losses: int(np.argmax(~(losses < 100 * losses[0]))),
        precision={"policy": "mixed_float16"},
        optimizer={"kind": "sgd", "learning_rate": 1e4},
        train={"steps": 13},
        model=lambda: layers_of(keras.layers.Dense(8, activation="relu")),
    )
    assert found["attribution"] == "weights"
    assert "optimizer.learning_rate" in found["advice"]
    assert "1e+04" in found["sentence"] or "10000" in found["sentence"]


def test_a_result_that_differs_from_the_record_is_not_reproducible(explained):
    found = explained(step=3, train={"steps": 5}, changes={"loss": 123.0})
    assert found["attribution"] == "not_reproducible"
    assert "loss was 123.0" in found["sentence"]


def test_a_planted_wrong_bit_is_found_by_running_the_step_twice(explained, monkeypatch):
    """The second time, the step flips the lowest bit of one weight."""
    run_block = StepRunner.run_block

    def faulty(runner, first_step, **options):
        block = run_block(runner, first_step, **options)
        times[first_step] = times.get(first_step, 0) + 1
        if times[first_step] == 3:  # the first time was in the run itself
            kernel = runner.networks[0].model.trainable_variables[0]
            bits = np.array(kernel.numpy()).view(np.uint32)
            bits[0, 0] ^= 1
            kernel.assign(bits.view(np.float32))
        return block

    times = {}
    monkeypatch.setattr(StepRunner, "run_block", faulty)
    found = explained(step=1, train={"steps": 3})
    assert found["attribution"] == "not_reproducible"
    assert not found["repeat"]["equal_bits"]
    [difference] = found["repeat"]["differences"]
    assert difference["elements"] == 1
    assert difference["name"].endswith("kernel")


def test_steps_are_repeated_on_request_and_a_planted_wrong_bit_is_an_event(monkeypatch):
    """The check changes nothing: the run equals one without it, bit for bit."""

    def train(**sections):
        events = []
        trainer = Trainer(make_job(lambda x: None, layers_of, train={"steps": 9}, **sections))
        return trainer.run(on_event=events.append).weights_digest, [
            event for event in events if event.type is EventType.NOT_REPRODUCIBLE
        ]

    run_block, blocks = StepRunner.run_block, []

    def counted(runner, first_step, **options):
        block = run_block(runner, first_step, **options)
        blocks.append((first_step, len(block)))
        return block

    def faulty(runner, first_step, **options):
        block = counted(runner, first_step, **options)
        if blocks.count((8, 1)) == 2:
            kernel = runner.networks[0].model.trainable_variables[0]
            bits = np.array(kernel.numpy()).view(np.uint32)
            bits[0, 0] ^= 1
            kernel.assign(bits.view(np.float32))
        return block

    digest, events = train()
    assert events == []
    monkeypatch.setattr(StepRunner, "run_block", counted)
    assert train(diagnostics={"repeat_step_every": 4}) == (digest, [])
    assert blocks.count((4, 1)) >= 2
    assert blocks.count((8, 1)) == 3
    blocks.clear()
    monkeypatch.setattr(StepRunner, "run_block", faulty)
    repaired, [event] = train(diagnostics={"repeat_step_every": 4})
    assert (repaired, event.step) == (digest, 8)
    assert event.data["differences"][0]["elements"] == 1
    assert "may be faulty" in event.data["message"]


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
    """A job with dropout, skips and checkpoints after each of its steps; the last two remain."""
    folder = tmp_path_factory.mktemp("digits")
    spec = JobSpec.parse(
        {
            "model": {"kind": "mlp", "hidden": [16], "dropout": 0.2},
            "data": {"kind": "digits", "batch_size": 128, "validation_split": 0.0},
            "precision": {"policy": "mixed_float16"},
            "loss_scale": {"mode": "dynamic", "initial": 2.0**24},
            "train": {"steps": 30, "checkpoint_every_s": 60},
            **GRAPH,
        }
    )
    blocks = []
    steps = iter(range(10**6))
    Trainer(spec, output_dir=folder).run(blocks.append, should_stop=lambda: next(steps) >= 4)
    saved = sum(len(block) for block in blocks)
    Trainer(spec, output_dir=folder, resume=True).run(blocks.append)
    losses = np.concatenate([block["loss"] for block in blocks])
    return spec, folder, saved, losses


@pytest.mark.slow
def test_a_step_after_a_checkpoint_is_replayed_from_there_bit_for_bit(digits_run):
    spec, folder, saved, losses = digits_run
    record = StepRecord({"loss": float(losses[29])}, "graph")
    explainer = StepExplainer(training_job(spec), folder / "checkpoints", 29, record)
    assert (explainer.cost.first_step, explainer.cost.steps) == (saved, 29 - saved)
    assert explainer.cost.seconds > 0
    blocks = []
    found = explainer.run(blocks.append)
    assert [step for block in blocks for step in block["step"]] == list(range(saved, 30))
    assert (found["kind"], found["attribution"]) == ("normal", "normal")
    assert found["values"]["loss"] == losses[29]
    assert found["repeat"]["equal_bits"]


def test_the_command_line_states_the_cost_and_explains_a_step_from_the_start(digits_run, capfd):
    _, folder, saved, losses = digits_run
    step = saved - 1
    result = CliRunner().invoke(app, ["explain", str(folder), str(step), "--json"])
    assert result.exit_code == 0
    assert f"Replaying {step} steps from the first step" in capfd.readouterr().err
    found = json.loads(result.stdout)
    assert (found["attribution"], found["values"]["loss"]) == ("loss_scale", losses[step])
    assert found["examples"]["shown"][0]["inputs"][""]["kind"] == "picture"
    for example in found["examples"]["shown"]:
        place = {"file": None, "row": example["example"] + 1, "character": None}
        assert example["place"] == place
    lines = explanation_lines(found)
    assert lines[0] == f"Step {step} (epoch 0, batch {step}): skipped"
    assert lines[1] == "Due to: the loss scale"
    assert any(line.startswith("  * dense") for line in lines)
    assert len(lines) < len(explanation_lines(found, folded=False)) + 1


def test_the_examples_of_shuffled_data_are_shown_with_their_row_in_the_file(tmp_path):
    """The target of each row is its number."""
    rows = "".join(f"{np.sin(row)},{row}\n" for row in range(1, 65))
    (tmp_path / "waves.csv").write_text(f"x,y\n{rows}")
    spec = JobSpec.parse(
        {
            "model": {"kind": "mlp", "hidden": [4]},
            "data": {
                "kind": "csv",
                "path": "waves.csv",
                "target": "y",
                "validation_rows": "random",
                "batch_size": 16,
            },
            "task": {"kind": "regression"},
            "train": {"epochs": 1},
            **GRAPH,
        }
    )
    found = StepExplainer(training_job(spec, data_root=tmp_path), None, 1).run()
    shown = found["examples"]["shown"]
    places = [example["place"] for example in shown]
    assert [place["row"] for place in places] == [
        next(iter(example["targets"].values()))["values"][0]["value"] for example in shown
    ]
    assert {place["file"] for place in places} == {"waves.csv"}
    assert any(example["example"] + 1 != example["place"]["row"] for example in shown)
    found |= {"attribution": "data"}
    place = f", row {places[0]['row']} of waves.csv, loss "
    assert any(place in line for line in explanation_lines(found))


def test_a_folder_without_a_checkpoint_is_refused(tmp_path, capfd):
    result = CliRunner().invoke(app, ["explain", str(tmp_path), "3"])
    assert result.exit_code == 2
    assert "has no checkpoint; name the job with --spec FILE" in capfd.readouterr().err


def test_a_step_that_the_run_does_not_have_is_refused(digits_run):
    spec, folder, *_ = digits_run
    with pytest.raises(InvalidData, match="expected a step from 0 to 29; received 30"):
        StepExplainer(training_job(spec), folder / "checkpoints", 30).run()


def test_a_replay_can_be_stopped(digits_run):
    spec, folder, *_ = digits_run
    with pytest.raises(ReplayStopped):
        StepExplainer(training_job(spec), folder / "checkpoints", 29).run(should_stop=lambda: True)
