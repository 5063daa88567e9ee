import math
import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import inspect, select, text, type_coerce, update

from store.access import browser_sessions, projects, tokens
from store.access.tokens import TokenRevoked
from store.clock import from_now
from store.tables import Project, Token
from store.tables.base import JsonColumn
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import DEADLINE_S, join


def make(database, name="ada", **values):
    """The secret and the row of a new token."""
    with database.write() as session:
        secret = tokens.create(session, name, **values)
        return secret, tokens.get_by_secret(session, secret)


def is_valid(database, secret):
    with database.read() as session:
        return tokens.find_valid(session, tokens.digest_of(secret)) is not None


def test_a_token_is_valid_and_its_secret_is_not_stored(database):
    secret, row = make(database)
    assert is_valid(database, secret)
    values = [str(getattr(row, name)) for name, _ in inspect(Token).columns.items()]
    assert not any(secret in text or secret.removeprefix("amp_") in text for text in values)


@ON_SQLITE
def test_a_secret_has_256_random_bits_and_a_fixed_prefix(database):
    secrets = {make(database)[0] for _ in range(3)}
    assert len(secrets) == 3
    assert all(secret.startswith("amp_") and len(secret) == 4 + 43 for secret in secrets)


def test_a_token_is_a_member_of_the_default_project_by_default(database):
    _, row = make(database)
    assert (row.role, row.project, row.expires_at) == ("member", "default", None)
    _, row = make(database, role="viewer", project="vision", created_by="root")
    assert (row.role, row.project, row.created_by) == ("viewer", "vision", "root")
    with database.read() as session:
        assert projects.get(session, "vision") is not None


def test_scopes_are_also_stored_by_their_names_in_version_0_5(database):
    make(database, scopes=["jobs:run-code"])
    with database.read() as session:
        [stored] = session.scalars(select(type_coerce(Token.scopes, JsonColumn)))
        assert stored == ["jobs:run-code", "code"]
        assert session.scalars(select(Token.scopes)).one() == ["jobs:run-code"]


def test_a_token_of_version_0_5_has_its_scopes(database):
    _, row = make(database)
    with database.write() as session:
        session.execute(text("UPDATE tokens SET rights = '[\"code\"]'"))
        assert tokens.has_scope(session, row.id, "jobs:run-code")


@every_row("wrong", ["", "amp_", "amp_ü", "amp_\ud800", "x" * 10_000])
def test_any_other_secret_is_invalid(database, wrong):
    secret, _ = make(database)
    assert not is_valid(database, wrong)
    assert not is_valid(database, secret.swapcase())


def test_a_token_is_invalid_from_its_expiry_on(database):
    secret, row = make(database, expires_at=datetime.now(UTC) + timedelta(hours=1))
    with database.read() as session:
        remaining_s = tokens.find_valid(session, row.digest).remaining_s
    assert 3600 - DEADLINE_S < remaining_s <= 3600
    expire(database, row)
    assert not is_valid(database, secret)


def expire(database, row):
    with database.write() as session:
        session.execute(update(Token).where(Token.id == row.id).values(expires_at=from_now(-0.001)))


def revoke(database, row):
    with database.write() as session:
        return tokens.revoke(session, tokens.get(session, row.id))


def test_a_revoked_token_is_invalid_and_its_row_is_kept(database):
    secret, row = make(database)
    assert revoke(database, row)
    assert not is_valid(database, secret)
    with database.read() as session:
        (kept,) = tokens.listing(session)
    assert kept.revoked_at is not None


def test_a_token_is_revoked_once(database):
    _, row = make(database)
    assert revoke(database, row)
    with database.read() as session:
        revoked_at = tokens.get(session, row.id).revoked_at
    assert not revoke(database, row)
    with database.read() as session:
        assert tokens.get(session, row.id).revoked_at == revoked_at


def test_the_last_valid_admin_cannot_be_revoked(database):
    _, root = make(database, role="admin")
    _, revoked = make(database, role="admin")
    _, expired = make(database, role="admin")
    make(database, role="member")
    revoke(database, revoked)
    expire(database, expired)
    with pytest.raises(tokens.LastAdminToken, match=root.id):
        revoke(database, root)
    assert revoke(database, expired)
    make(database, role="admin")
    assert revoke(database, root)


def test_one_of_two_admins_that_are_revoked_concurrently_remains(database, until_blocked):
    # Fails without `with_for_update` in revoke: PostgreSQL then revokes both.
    (_, first), (_, second) = (make(database, role="admin") for _ in range(2))
    outcomes = []

    def run():
        try:
            outcomes.append(revoke(database, second))
        except tokens.LastAdminToken as error:
            outcomes.append(error)

    thread = threading.Thread(target=run)
    with database.write() as session:
        tokens.revoke(session, tokens.get(session, first.id))
        thread.start()
        until_blocked(thread)
    join(thread)
    assert isinstance(outcomes[0], tokens.LastAdminToken)


def test_ensuring_a_token_twice_keeps_one_admin(database):
    with database.write() as session:
        tokens.ensure_admin(session, "up", "amp_secret")
        tokens.ensure_admin(session, "up", "amp_secret")
    with database.read() as session:
        (row,) = tokens.listing(session)
        assert (row.role, row.project) == ("admin", "default")


def test_ensuring_a_revoked_token_fails_and_keeps_it_revoked(database):
    with database.write() as session:
        tokens.ensure_admin(session, "up", "amp_secret")
    make(database, role="admin")
    with database.read() as session:
        row = tokens.get_by_secret(session, "amp_secret")
    revoke(database, row)
    with database.write() as session, pytest.raises(tokens.TokenRevoked, match=row.id):
        tokens.ensure_admin(session, "up", "amp_secret")
    assert not is_valid(database, "amp_secret")


def test_the_first_token_creates_the_default_project(database):
    with database.write() as session:
        session.query(Project).delete()
    make(database)
    with database.read() as session:
        assert projects.get(session, "default") is not None


def test_a_rotated_token_has_another_secret_and_the_former_one_for_a_time(database):
    with database.write() as session:
        first = tokens.create(session, "ada", role="admin")
        token = tokens.get_by_secret(session, first)
        cookie, _ = browser_sessions.create(session, token)
        second = tokens.rotate(session, token, 600)
    with database.read() as session:
        for secret, remaining_s in ((first, 600), (second, math.inf)):
            valid = tokens.find_valid(session, tokens.digest_of(secret))
            assert valid.token.id == token.id
            assert valid.remaining_s == pytest.approx(remaining_s, abs=60)
        opened = browser_sessions.find(session, tokens.digest_of(cookie))
        assert opened.remaining_s == pytest.approx(600, abs=60)
    with database.write() as session:
        third = tokens.rotate(session, tokens.get(session, token.id), 0)
    with database.read() as session:
        for secret, is_valid_now in ((first, False), (second, False), (third, True)):
            valid = tokens.find_valid(session, tokens.digest_of(secret))
            assert (valid is not None) == is_valid_now
        assert browser_sessions.find(session, tokens.digest_of(cookie)) is None
    for secret in (first, second):
        with pytest.raises(TokenRevoked, match="was rotated"), database.write() as session:
            tokens.ensure_admin(session, "up", secret)
    with database.write() as session:
        other = tokens.get_by_secret(session, tokens.create(session, "other"))
        tokens.revoke(session, other)
        with pytest.raises(TokenRevoked, match="is revoked or has expired"):
            tokens.rotate(session, other, 0)
