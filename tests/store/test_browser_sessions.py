from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from store.access import browser_sessions, tokens
from store.clock import from_now
from store.tables import BrowserSession, Token
from tests.waiting import DEADLINE_S


@pytest.fixture
def token(database):
    with database.write() as session:
        tokens.create(session, "root", role="admin")
        return tokens.get_by_secret(session, tokens.create(session, "ada"))


def open_session(database, token):
    with database.write() as session:
        return browser_sessions.create(session, token)


def find(database, secret):
    with database.read() as session:
        return browser_sessions.find(session, tokens.digest_of(secret))


def test_a_session_belongs_to_its_token_and_its_secret_is_not_stored(database, token):
    secret, expires_at = open_session(database, token)
    browser_session = find(database, secret)
    assert (browser_session.token.id, browser_session.expires_at) == (token.id, expires_at)
    with database.read() as session:
        (row,) = session.scalars(select(BrowserSession))
        assert secret not in (row.digest, row.token_id)


def test_a_session_lasts_twelve_hours(database, token):
    slack, started_at = timedelta(seconds=1), datetime.now(UTC)
    secret, expires_at = open_session(database, token)
    made_at = expires_at - timedelta(hours=12)
    assert started_at - slack < made_at < datetime.now(UTC) + slack
    assert 12 * 3600 - DEADLINE_S < find(database, secret).remaining_s <= 12 * 3600


def test_a_session_expires_no_later_than_its_token(database):
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    with database.write() as session:
        secret = tokens.create(session, "ada", expires_at=ends)
        _, expires_at = browser_sessions.create(session, tokens.get_by_secret(session, secret))
    assert expires_at == ends


def test_a_session_ends_with_the_revocation_of_its_token(database, token):
    secret, _ = open_session(database, token)
    with database.write() as session:
        tokens.revoke(session, tokens.get(session, token.id))
    assert find(database, secret) is None


def test_an_expired_session_is_invalid_and_only_expired_sessions_are_deleted(database, token):
    secret, _ = open_session(database, token)
    with database.write() as session:
        session.execute(update(BrowserSession).values(expires_at=from_now(-0.001)))
    assert find(database, secret) is None
    valid, _ = open_session(database, token)
    with database.write() as session:
        browser_sessions.delete_expired(session)
    assert find(database, valid) is not None
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(BrowserSession)) == 1


def test_a_session_is_removed_once(database, token):
    secret, _ = open_session(database, token)
    digest = tokens.digest_of(secret)
    with database.write() as session:
        assert browser_sessions.remove(session, digest)
        assert not browser_sessions.remove(session, digest)
    assert find(database, secret) is None


def test_the_secrets_of_sessions_and_tokens_are_not_interchangeable(database, token):
    secret, _ = open_session(database, token)
    with database.read() as session:
        assert tokens.find_valid(session, tokens.digest_of(secret)) is None
        digest = session.scalar(select(Token.digest).where(Token.id == token.id))
        assert browser_sessions.find(session, digest) is None
