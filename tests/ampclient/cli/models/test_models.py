"""`ampctl model` against the real API."""

import json

import pytest

from ampclient.cli.exit_status import ExitStatus
from tests.trained_jobs import TrainedJobs


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the command line."""
    return sqlite_url


@pytest.fixture
def address(api):
    """The real API in place of the fake server."""
    return api.url


@pytest.fixture(autouse=True)
def connection(configured, api):
    configured.write_text(json.dumps({"url": api.url, "token": api.token}))


@pytest.fixture
def trained_job(api, make_job, tmp_path):
    return TrainedJobs(api, make_job, tmp_path / "files")


@pytest.mark.quick
def test_a_model_goes_from_job_to_champion(ampctl, trained_job, tmp_path):
    job_id = trained_job(accuracies=[1.0] * 300 + [0.0] * 100)
    assert "There are no models yet" in ampctl("model", "list").err
    assert ampctl("model", "register", "digits", job_id, "--tag", "team=vision").out == "digits:1\n"
    promote = ("model", "promote", "digits", "1", "--alias", "champion")
    refused = ampctl(*promote, "--assert", "val_accuracy >= 0.9")
    assert refused.code == ExitStatus.FAILED
    assert "✗ val_accuracy >= 0.9: expected >= 0.9; received 0.75" in refused.out
    assert "refused: champion was not changed, no version has it." in refused.out
    promoted = ampctl(*promote, "--assert", "val_accuracy >= 0.7", "--reason", "weekly")
    assert (promoted.code, promoted.out.splitlines()[-1]) == (0, "digits:1 is champion now.")
    head, row = ampctl("model", "list").out.splitlines()
    assert head.split() == ["MODEL", "NEWEST", "VERSIONS", "ALIASES", "METRICS", "REGISTERED"]
    assert "champion 1" in row
    shown = ampctl("model", "show", "digits@champion").out
    assert "train.export of the job does not name onnx" in shown
    assert "team=vision" in shown
    assert ampctl("model", "show", "digits").out.splitlines()[1].startswith("digits:1")
    history = ampctl("model", "history", "digits").out.splitlines()
    assert ["promoted" in history[1], "refused" in history[2]] == [True, True]
    assert "weekly; ✓ val_accuracy >= 0.7: expected >= 0.7; received 0.75" in history[1]
    assert "✗ val_accuracy >= 0.9: expected >= 0.9; received 0.75" in history[2]
    saved = ampctl("model", "download", "digits@champion", "-o", str(tmp_path / "here"))
    assert saved.out.strip() == str(tmp_path / "here" / "model.keras")
    card = tmp_path / "card.md"
    ampctl("model", "card", "digits:1", "-o", str(card))
    assert card.read_text() == ampctl("model", "card", "digits:1").out


def test_a_version_to_promote_is_named_as_for_other_commands(ampctl, trained_job):
    for _ in range(2):
        ampctl("model", "register", "digits", trained_job(metrics={"val_loss": 0.5}))
    options = ("--alias", "champion", "--assert", "val_loss <= 0.6")
    for words, number in ((("digits:1",), 1), (("digits@latest",), 2), (("digits", "1"), 1)):
        promoted = ampctl("model", "promote", *words, *options)
        assert (promoted.code, promoted.out.splitlines()[-1]) == (
            ExitStatus.DONE,
            f"digits:{number} is champion now.",
        )
    assert ampctl("model", "alias", "digits:2", "stable").out.endswith("version 2\n")
    for command in (("promote", "digits"), ("promote", "digits:1", "2"), ("alias", "digits", "x")):
        refused = ampctl("model", *command, *(options[:2] if command[0] == "promote" else ()))
        assert (refused.code, "digits@champion" in refused.err) == (ExitStatus.USAGE, True)


@pytest.mark.slow
def test_aliases_gates_notes_and_deletion(ampctl, trained_job):
    for _ in range(2):
        ampctl("model", "register", "digits", trained_job(metrics={"val_loss": 0.5}))
    moved = ampctl("model", "alias", "digits", "champion", "2", "--if-version", "0")
    assert moved.out == "champion: no version → version 2\n"
    stale = ampctl("model", "alias", "digits", "champion", "1", "--if-version", "1")
    assert (stale.code, "version 2 has it" in stale.err) == (ExitStatus.REFUSED, True)
    gate = ampctl("model", "gate", "digits", "--alias", "champion", "--assert", "val_loss <= 0.6")
    assert gate.out == "val_loss <= 0.6\n"
    assert "has a gate" in ampctl("model", "alias", "digits", "champion", "1").err
    assert ampctl("model", "promote", "digits", "1", "--alias", "champion").code == 0
    removed = ampctl("model", "gate", "digits", "--alias", "champion", "--remove")
    assert removed.out == "champion has no gate.\n"
    assert ampctl("model", "alias", "digits", "champion", "--remove").out.endswith("→ removed\n")
    assert ampctl("model", "alias", "digits", "champion").code == ExitStatus.USAGE
    ampctl("model", "note", "digits:1", "for the demo")
    assert "for the demo" in ampctl("model", "show", "digits:1").out
    assert ampctl("model", "tag", "digits", "a=1", "b=2").out == "a=1\nb=2\n"
    assert ampctl("model", "tag", "digits", "a=").out == "b=2\n"
    assert ampctl("model", "tag", "digits", "a").code == ExitStatus.USAGE
    assert "Deleted digits:2" in ampctl("model", "delete", "digits:2").err
    assert "digits:2" in ampctl("model", "show", "digits", "--deleted").out
    assert "Restored digits:2" in ampctl("model", "undelete", "digits:2").err


def test_mistakes_have_their_own_messages(ampctl, trained_job):
    unknown = ampctl("model", "show", "digits:1")
    assert (unknown.code, "There is no model 'digits:1'" in unknown.err) == (4, True)
    assert ampctl("model", "show", "Digits:1").code == ExitStatus.USAGE
    ampctl("model", "register", "digits", trained_job(metrics={"val_loss": 0.5}))
    promote = ("model", "promote", "digits", "1", "--alias", "champion")
    answer = ampctl(*promote, "--assert", "val_los <= 1")
    assert (answer.code, "Did you mean 'val_loss'?" in answer.err) == (ExitStatus.REFUSED, True)
    assert "has no gate" in ampctl(*promote).err
