from store.access import audit
from store.access.audit import Actor

ADA = Actor("vision", "0123456789ab", "ada", "192.0.2.1", "req-1")
ROOT = Actor("default", "ba9876543210", "root", None, None)


def actions_of(database, **filters):
    with database.read() as session:
        return [entry.action for entry in audit.page(session, limit=100, **filters)]


def test_an_audit_entry_stores_the_actor_the_action_and_the_time(database):
    with database.write() as session:
        audit.record(session, ADA, "job.submit", "0a1b2c3d4e5f", name="digits", share=float("nan"))
    with database.read() as session:
        (entry,) = audit.page(session, limit=10)
    assert (entry.action, entry.target) == ("job.submit", "0a1b2c3d4e5f")
    assert (entry.token_id, entry.token_name) == ("0123456789ab", "ada")
    assert (entry.project, entry.address, entry.request_id) == ("vision", "192.0.2.1", "req-1")
    assert entry.data == {"name": "digits", "share": "NaN"}
    assert entry.at is not None


def test_an_audit_entry_is_rolled_back_with_its_change(database):
    try:
        with database.write() as session:
            audit.record(session, ADA, "job.submit")
            raise RuntimeError
    except RuntimeError:
        pass
    assert actions_of(database) == []


def test_an_audit_entry_belongs_to_the_project_of_its_target(database):
    with database.write() as session:
        audit.record(session, ROOT, "job.cancel", "0a1b2c3d4e5f", project="vision")
    with database.read() as session:
        (entry,) = audit.page(session, limit=10)
    assert (entry.project, entry.token_name, entry.data) == ("vision", "root", None)


def test_entries_are_read_newest_first_and_can_be_filtered(database):
    with database.write() as session:
        for actor, action in [(ADA, "job.submit"), (ROOT, "token.create"), (ADA, "job.cancel")]:
            audit.record(session, actor, action)
    assert actions_of(database) == ["job.cancel", "token.create", "job.submit"]
    assert actions_of(database, action="token.create") == ["token.create"]
    assert actions_of(database, project="vision") == ["job.cancel", "job.submit"]
    assert actions_of(database, project="vision", action="job.cancel") == ["job.cancel"]
    assert actions_of(database, token_id=ROOT.token_id) == ["token.create"]


def test_pages_have_every_entry_once_while_new_entries_are_written(database):
    with database.write() as session:
        for number in range(5):
            audit.record(session, ADA, f"action.{number}")
    with database.read() as session:
        first = audit.page(session, limit=2)
    with database.write() as session:
        audit.record(session, ADA, "action.new")
    with database.read() as session:
        second = audit.page(session, limit=10, before_id=first[-1].id)
    actions = [entry.action for entry in [*first, *second]]
    assert actions == [f"action.{number}" for number in reversed(range(5))]
