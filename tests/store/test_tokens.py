import pytest

from store import tokens
from store.tables import Token


def test_a_token_opens_the_door_and_its_secret_is_kept_nowhere(database):
    with database.write() as session:
        secret = tokens.create(session, "ada")
    with database.read() as session:
        row = tokens.verify(session, secret)
        assert row.name == "ada"
        assert not any(secret in str(getattr(row, name)) for name in ("id", "name", "digest"))


@pytest.mark.parametrize("wrong", ["", "amp_", "amp_ü", "x" * 10_000])
def test_any_other_secret_opens_nothing(database, wrong):
    with database.write() as session:
        secret = tokens.create(session, "ada")
    with database.read() as session:
        assert tokens.verify(session, wrong) is None
        assert tokens.verify(session, secret.swapcase()) is None


def test_ensuring_a_token_twice_keeps_one(database):
    with database.write() as session:
        tokens.ensure(session, "up", "amp_secret")
        tokens.ensure(session, "up", "amp_secret")
    with database.read() as session:
        assert session.query(Token).count() == 1
