"""Aliases and their history; promotions with assertions, gates, and evidence."""

import threading

import pytest
from sqlalchemy import select

from store.tables import AuditEntry
from tests.databases import ON_SQLITE
from tests.server.models.conftest import MODELS
from tests.tables import every_row
from tests.waiting import join

CHAMPION = f"{MODELS}/digits/aliases/champion"
ROWS = 400


def right(count, rows=ROWS):
    """The accuracy of each of the rows: the first ones are right."""
    return [1.0] * count + [0.0] * (rows - count)


@pytest.fixture
def promote(api):
    def promote(version, *assertions, **fields):
        body = {"version": version, "assertions": assertions, **fields}
        return api.client.post(f"{CHAMPION}/promote", json=body)

    return promote


@pytest.fixture
def holder(api):
    """The number of the version that has the alias."""
    return lambda: api.client.get(f"{MODELS}/digits").json()["aliases"].get("champion")


@pytest.mark.quick
def test_an_alias_moves_in_one_step_and_its_history_is_kept(api, register, holder):
    register()
    register()
    first = api.client.put(CHAMPION, json={"version": 1, "reason": "the first"}).json()
    assert (first["from_number"], first["to_number"], first["outcome"]) == (None, 1, "set")
    api.client.put(CHAMPION, json={"version": 2, "if_version": 1})
    assert holder() == 2
    assert api.client.get(f"{MODELS}/digits/versions/champion").json()["number"] == 2
    assert api.client.delete(CHAMPION).json()["outcome"] == "removed"
    assert api.client.delete(CHAMPION).status_code == 404
    history = api.client.get(f"{MODELS}/digits/history").json()["items"]
    moves = [(entry["from_number"], entry["to_number"]) for entry in history]
    assert moves == [(2, None), (1, 2), (None, 1)]
    assert (history[-1]["reason"], history[-1]["created_by"]) == ("the first", "test")
    page = api.client.get(f"{MODELS}/digits/history", params={"alias": "champion", "limit": 2})
    assert (len(page.json()["items"]), page.json()["next_cursor"]) == (2, str(history[1]["id"]))


@ON_SQLITE
@every_row("if_version", [0, 2])
def test_a_stale_compare_and_set_changes_nothing(api, register, if_version):
    if not api.client.get(MODELS).json()["items"]:
        register()
        register()
        api.client.put(CHAMPION, json={"version": 1})
    answer = api.client.put(CHAMPION, json={"version": 2, "if_version": if_version})
    assert answer.status_code == 409
    assert "but version 1 has it" in answer.json()["detail"]
    assert len(api.client.get(f"{MODELS}/digits/history").json()["items"]) == 1


def test_of_concurrent_compare_and_sets_one_wins(api, register):
    for _ in range(4):
        register()
    statuses = []

    def put(number):
        answer = api.client.put(CHAMPION, json={"version": number, "if_version": 0})
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=put, args=[number]) for number in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert sorted(statuses) == [200, 409, 409, 409]


@ON_SQLITE
@every_row("alias", ["latest", "1", "Champion", "-x", "a" * 64])
def test_an_alias_that_could_be_mistaken_is_refused(api, register, alias):
    answer = api.client.put(f"{MODELS}/digits/aliases/{alias}", json={"version": 1})
    assert answer.status_code == 422, answer.text


@pytest.mark.quick
@ON_SQLITE
def test_a_version_that_is_better_by_example_is_promoted(api, register, promote, holder):
    register(accuracies=right(200))
    api.client.put(CHAMPION, json={"version": 1})
    register(accuracies=right(300))
    promotion = promote(2, "val_accuracy >= base", "val_accuracy >= 0.7", reason="weekly").json()
    assert (promotion["outcome"], holder()) == ("promoted", 2)
    relative, absolute = promotion["checks"]
    assert (relative["outcome"], relative["examples"]) == ("passed", ROWS)
    assert (relative["value"], relative["base"]) == (0.75, 0.5)
    assert 0.0 < relative["interval"][0] < 0.25 < relative["interval"][1]
    assert (absolute["outcome"], absolute["interval"]) == ("passed", None)
    [entry, _] = api.client.get(f"{MODELS}/digits/history").json()["items"]
    assert entry == promotion
    with api.database.read() as session:
        row = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc())).first()
    assert (row.action, row.data["outcome"]) == ("model.promote", "promoted")


@pytest.mark.quick
@ON_SQLITE
def test_an_undecided_promotion_changes_nothing_and_says_what_would_settle_it(
    api, register, promote, holder
):
    register(accuracies=right(200))
    api.client.put(CHAMPION, json={"version": 1})
    register(accuracies=right(202))
    promotion = promote(2, "val_accuracy >= base").json()
    assert (promotion["outcome"], holder()) == ("undecided", 1)
    [check] = promotion["checks"]
    assert check["outcome"] == "undecided"
    assert "Cannot tell: with 400 validation examples" in check["message"]
    assert "examples would probably decide it" in check["message"]
    # The history has the evidence, too.
    assert api.client.get(f"{MODELS}/digits/history").json()["items"][0] == promotion
    assert promote(2, "val_accuracy >= base - 5 points").json()["outcome"] == "promoted"


@ON_SQLITE
def test_a_failed_assertion_refuses_whatever_else_is_undecided(api, register, promote, holder):
    register(accuracies=right(300))
    api.client.put(CHAMPION, json={"version": 1})
    register(accuracies=right(200))
    promotion = promote(2, "val_accuracy >= base", "val_accuracy >= 0.9").json()
    outcomes = [check["outcome"] for check in promotion["checks"]]
    assert (promotion["outcome"], outcomes, holder()) == ("refused", ["failed", "failed"], 1)


@ON_SQLITE
def test_versions_that_were_evaluated_on_other_rows_or_data_are_not_compared(
    api, register, promote
):
    register(accuracies=right(200))
    api.client.put(CHAMPION, json={"version": 1})
    register(accuracies=right(400), rows=range(400, 800))
    register(accuracies=right(400), data={"kind": "synthetic"})
    register(metrics={"val_accuracy": 1.0})
    messages = [
        promote(number, "val_accuracy >= base").json()["checks"][0]["message"]
        for number in (2, 3, 4)
    ]
    assert "evaluated on different rows" in messages[0]
    assert "evaluated on different data (data." in messages[1]
    assert "digits:4 has no metrics of single validation examples" in messages[2]
    assert all("cannot tell" in message for message in messages)
    # The time of a step is one measurement: it is compared as `ampctl compare --assert` does.
    assert promote(4, "val_accuracy >= 0.9").json()["outcome"] == "promoted"


@ON_SQLITE
def test_the_first_promotion_has_nothing_to_compare_with(register, promote, holder):
    register(accuracies=right(200))
    promotion = promote(1, "val_accuracy >= base", "val_accuracy >= 0.4").json()
    assert [check["outcome"] for check in promotion["checks"]] == ["skipped", "passed"]
    assert (promotion["outcome"], holder()) == ("promoted", 1)


@ON_SQLITE
def test_assertions_that_cannot_be_checked_are_errors(register, promote):
    register(accuracies=right(200))
    answer = promote(1, "val_accuracy >= 0.1", "accuracy is good")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/assertions/1"
    answer = promote(1, "val_acuracy >= 0.1")
    assert "Did you mean 'val_accuracy'?" in answer.json()["errors"][0]["detail"]
    assert promote(1).status_code == 409
    assert promote(2, "val_accuracy >= 0").status_code == 404


@pytest.mark.quick
@ON_SQLITE
def test_an_alias_with_a_gate_is_changed_by_promotions_only(api, register, promote, holder):
    register(accuracies=right(200))
    register(accuracies=right(100))
    gates = {"gates": {"champion": ["val_accuracy >= 0.4"]}}
    assert api.client.patch(f"{MODELS}/digits", json=gates).status_code == 200
    answer = api.client.put(CHAMPION, json={"version": 1})
    assert answer.status_code == 409
    assert "has a gate (val_accuracy >= 0.4)" in answer.json()["detail"]
    assert promote(2, "val_accuracy >= 0").json()["outcome"] == "refused"
    assert promote(1).json()["outcome"] == "promoted"
    assert api.client.delete(CHAMPION).status_code == 409
    assert holder() == 1
    api.client.patch(f"{MODELS}/digits", json={"gates": {"champion": None}})
    assert api.client.delete(CHAMPION).status_code == 200
    bad = {"gates": {"champion": ["good"]}}
    answer = api.client.patch(f"{MODELS}/digits", json=bad)
    assert answer.json()["errors"][0]["pointer"] == "/gates/champion/0"


@ON_SQLITE
def test_a_repeated_promotion_gets_the_first_answer(api, register, promote):
    register(accuracies=right(200))
    body = {"version": 1, "assertions": ["val_accuracy >= 0.1"]}
    headers = {"Idempotency-Key": "once"}
    answers = [api.client.post(f"{CHAMPION}/promote", json=body, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(api.client.get(f"{MODELS}/digits/history").json()["items"]) == 1


@ON_SQLITE
def test_a_champion_that_changes_during_the_comparison_is_noticed(
    api, register, promote, monkeypatch
):
    register(accuracies=right(200))
    register(accuracies=right(300))
    api.client.put(CHAMPION, json={"version": 1})
    from server.models import promotion

    check = promotion.check_assertions

    def move_and_check(*arguments):
        checked = check(*arguments)
        api.client.put(CHAMPION, json={"version": 2})
        return checked

    monkeypatch.setattr(promotion, "check_assertions", move_and_check)
    answer = promote(2, "val_accuracy >= base")
    assert answer.status_code == 409
    assert "was changed while the versions were compared" in answer.json()["detail"]
