"""The model card: what is stored, what was not measured, and text of users."""

import pytest

from ampspec.telemetry import Event, EventType
from store.jobs import attempts
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.server.models.conftest import MODELS

CARD = f"{MODELS}/digits/versions/latest/card"


@pytest.mark.quick
@ON_SQLITE
def test_the_card_has_what_is_stored(api, register):
    version = register(
        metrics={"val_accuracy": 0.9125, "val_loss": 0.25},
        summary={
            "policy": "mixed_float16",
            "scale_health": "steady",
            "constant_metrics": {"val_accuracy": 0.1},
            "weights_digest": "abc",
        },
        precision={"policy": "mixed_float16"},
    )
    api.client.put(f"{MODELS}/digits/aliases/champion", json={"version": 1})
    answer = api.client.get(CARD)
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert "digits-1.md" in answer.headers["Content-Disposition"]
    card = answer.text
    for line in (
        "# digits:1",
        "- aliases: champion",
        f"- job: job 0 ({version['job_id']})",
        "| model | input | pixels | (8, 8, 1) | float32 |",
        "| val\\_accuracy | 0.9125 | 0.1 |",
        "| val\\_loss | 0.25 | not recorded |",
        "- policy: mixed\\_float16",
        "- health of the loss scale: steady",
        "- tensorflow: 2.21.0",
        "- SHA-256 of the weights: abc",
        "Not measured: the job sampled no ranges (`telemetry.ranges`).",
    ):
        assert line in card.splitlines(), line
    assert "does not name onnx" in card


@ON_SQLITE
def test_no_loss_scale_has_no_health(api, register):
    register(summary={"policy": "float32", "scale_health": "fixed"})
    lines = api.client.get(CARD).text.splitlines()
    assert "- loss scale: none" in lines
    assert not [line for line in lines if line.startswith("- health of the loss scale")]


@ON_SQLITE
def test_a_job_without_validation_says_so(api, register):
    register()
    card = api.client.get(CARD).text
    assert "Not measured: the job had no validation data." in card
    assert "- The quality of the predictions: there were no validation data." in card


@ON_SQLITE
def test_text_of_users_has_no_meaning_in_markdown(api, register):
    register(name="digits")
    note = {"note": "# big\n<script>alert(1)</script> [x](javascript:y) `|`"}
    api.client.patch(f"{MODELS}/digits/versions/1", json=note)
    card = api.client.get(CARD).text
    assert "<script>" not in card
    assert "> \\[x\\]" not in card.splitlines()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\[x\\](javascript:y) \\`\\|\\`" in card


@ON_SQLITE
def test_findings_of_the_training_are_listed_once(api, trained_job, monkeypatch):
    finish = attempts.mark_succeeded

    def warn_and_finish(session, job_id, attempt, summary):
        warning = Event.warning("slow", "The input is far from *zero*.", 3)
        entries = [warning, warning, Event(EventType.OVERFLOW, 5, {})]
        ingest.append(session, job_id, attempt, entries, entries_written=0)
        return finish(session, job_id, attempt, summary)

    monkeypatch.setattr(attempts, "mark_succeeded", warn_and_finish)
    body = {"job_id": trained_job()}
    assert api.client.post(f"{MODELS}/digits/versions", json=body).status_code == 201
    card = api.client.get(CARD).text
    assert card.count("- The input is far from \\*zero\\*.") == 1
    assert "- events overflow: 1" in card
