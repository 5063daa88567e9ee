from sqlalchemy import func, select, update

from server.background import cleanup
from store.access import browser_sessions, idempotency, tokens
from store.clock import from_now
from store.tables import BrowserSession, IdempotencyKey


def test_only_expired_sessions_and_idempotency_keys_are_deleted(database):
    with database.write() as session:
        secret = tokens.create(session, "test")
        token = tokens.get_by_secret(session, secret)
        for _ in range(2):
            browser_sessions.create(session, token)
        for key in ("old", "new"):
            session.add(IdempotencyKey(project="default", key=key, digest="0" * 64))
        session.flush()
        one = session.scalars(select(BrowserSession.digest)).first()
        ended = update(BrowserSession).where(BrowserSession.digest == one)
        session.execute(ended.values(expires_at=from_now(-1)))
        old = update(IdempotencyKey).where(IdempotencyKey.key == "old")
        session.execute(old.values(created_at=from_now(-idempotency.RETENTION_S - 1)))
    cleanup.delete_expired_rows(database)
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(BrowserSession)) == 1
        assert session.scalars(select(IdempotencyKey.key)).all() == ["new"]
