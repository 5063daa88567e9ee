"""People, their sessions, and sign-ins that are under way, on both kinds of database."""

import threading

from sqlalchemy import select, update

from ampspec.api.roles import Grant
from store.access import people, person_sessions, sign_ins, tokens
from store.access.people import Identity
from store.access.person_sessions import Browser, Lifetime
from store.clock import from_now
from store.tables import Person, PersonSession, SignIn, Token
from tests.waiting import join

ANN = Identity("https://issuer.example", "sub", "Ann", "ann@example.com", ("vision",))
VISION = Grant("vision", "member", ("jobs:run-code",))
AUDIO = Grant("audio", "viewer")
LIFETIME = Lifetime(idle_s=100.0, longest_s=1000.0)
BROWSER = Browser("127.0.0.1", "a browser")


def sign_in(session, *grants, identity=ANN):
    return people.sign_in(session, identity, grants or (VISION,), access_s=60.0)


def open_session(database, *grants):
    with database.write() as session:
        person = sign_in(session, *grants)
        secret, _ = person_sessions.create(session, person, BROWSER, LIFETIME)
    return tokens.digest_of(secret)


def find(database, digest):
    with database.read() as session:
        return person_sessions.find(session, digest)


def test_a_person_is_one_row_however_often_it_signs_in(database):
    with database.write() as session:
        first = sign_in(session).id
    with database.write() as session:
        renamed = Identity(ANN.issuer, ANN.subject, "Anna", "anna@example.com", ("audio",))
        second = sign_in(session, AUDIO, identity=renamed)
        assert (second.id, second.name, second.groups) == (first, "Anna", ["audio"])
        assert people.grants_of(second) == (AUDIO,)
    with database.write() as session:
        elsewhere = Identity("https://other.example", ANN.subject, "Ann", None, ())
        assert sign_in(session, identity=elsewhere).id != first


def test_a_person_that_signs_in_twice_at_once_is_one_row(database):
    begun = threading.Barrier(2)

    def run():
        begun.wait()
        with database.write() as session:
            sign_in(session)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    join(*threads)
    with database.read() as session:
        assert len(people.listing(session)) == 1


def test_people_are_listed_in_pages(database):
    with database.write() as session:
        for number in range(3):
            sign_in(session, identity=Identity("i", str(number), f"n{number}", None, ()))
    with database.read() as session:
        [newest, second] = people.listing(session, limit=2)
        [oldest] = people.listing(session, after_person=(second.created_at, second.id))
        assert [newest.name, second.name, oldest.name] == ["n2", "n1", "n0"]
        assert people.names(session, {newest.id, None}) == {newest.id: "n2"}


def test_a_session_is_found_until_it_ends(database):
    digest = open_session(database)
    valid = find(database, digest)
    assert (valid.person.name, valid.grant) == ("Ann", VISION)
    assert 0 < valid.remaining_s <= 100.0
    assert find(database, tokens.digest_of("a guess")) is None
    with database.write() as session:
        session.execute(update(PersonSession).values(used_at=from_now(-90.0)))
    assert find(database, digest).remaining_s < 20.0
    with database.write() as session:
        person_sessions.record_activity(session, valid.session.id)
    assert find(database, digest).remaining_s > 80.0
    for values in ({"used_at": from_now(-101.0)}, {"expires_at": from_now(-1.0)}):
        with database.write() as session:
            session.execute(update(PersonSession).values(values))
        assert find(database, digest) is None


def test_only_ended_sessions_are_deleted(database):
    digest = open_session(database)
    with database.write() as session:
        person_sessions.delete_ended(session)
    assert find(database, digest) is not None
    with database.write() as session:
        session.execute(update(PersonSession).values(used_at=from_now(-101.0)))
        person_sessions.delete_ended(session)
        assert session.scalars(select(PersonSession)).all() == []


def test_a_session_opens_one_of_the_projects(database):
    digest = open_session(database, VISION, AUDIO)
    valid = find(database, digest)
    with database.write() as session:
        person_sessions.open_project(session, valid.session.id, "audio")
    assert find(database, digest).grant == AUDIO
    with database.write() as session:
        sign_in(session, VISION)
    assert find(database, digest).grant == VISION  # the other one is lost


def test_a_refusal_ends_sessions_and_tokens(database):
    digest = open_session(database)
    with database.write() as session:
        person = session.scalars(select(Person)).one()
        secret = tokens.create(session, "mine", project="vision", owner_id=person.id)
        assert tokens.find_valid(session, tokens.digest_of(secret)).owner == "ann@example.com"
        assert people.has_scope(session, person.id, "vision", "jobs:run-code")
        assert people.refuse(session, ANN) == person.id
        assert people.refuse(session, Identity("i", "unknown", "n", None, ())) is None
    assert find(database, digest) is None
    with database.read() as session:
        assert tokens.find_valid(session, tokens.digest_of(secret)) is None
        assert not people.has_scope(session, person.id, "vision", "jobs:run-code")


def test_a_sign_in_revokes_the_tokens_that_allow_more(database):
    with database.write() as session:
        person = sign_in(session, VISION, AUDIO)
        for name, role, scopes in (
            ("strong", "member", ["jobs:run-code"]),
            ("weak", "viewer", []),
        ):
            values = {"role": role, "scopes": scopes, "project": "vision"}
            tokens.create(session, name, owner_id=person.id, **values)
        tokens.create(session, "nobody's", role="admin", project="vision")
    with database.write() as session:
        sign_in(session, Grant("vision", "viewer"))
        valid = session.scalars(select(Token.name).where(tokens.is_valid())).all()
        assert set(valid) == {"weak", "nobody's"}


def test_tokens_are_listed_by_owner_and_project(database):
    with database.write() as session:
        person = sign_in(session, VISION, AUDIO)
        tokens.create(session, "mine", project="audio", owner_id=person.id)
        tokens.create(session, "other", project="vision")
        tokens.create(session, "elsewhere")

        def names(**filters):
            return {token.name for token in tokens.listing(session, **filters)}

        assert names(owner_id=person.id) == {"mine"}
        assert names(owner_id=person.id, project="vision") == {"mine", "other"}
        assert names(project="vision") == {"other"}


def test_a_sign_in_comes_back_once_and_to_its_browser(database):
    with database.write() as session:
        for state in ("first", "second", "third"):
            sign_ins.begin(session, state=state, browser="cookie", return_to="/#/jobs")

    def take(state, browser="cookie"):
        with database.write() as session:
            return sign_ins.take(session, state=state, browser=browser)

    assert take("first") == "/#/jobs"
    assert take("first") is None
    assert take("second", browser="another") is None
    assert take("second") is None
    with database.write() as session:
        session.execute(update(SignIn).values(expires_at=from_now(-1.0)))
    assert take("third") is None
    with database.write() as session:
        sign_ins.delete_expired(session)
        assert session.scalars(select(SignIn)).all() == []


def test_of_two_responses_at_once_one_counts(database):
    with database.write() as session:
        sign_ins.begin(session, state="state", browser="cookie", return_to="/")
    begun, results = threading.Barrier(2), []

    def run():
        begun.wait()
        with database.write() as session:
            results.append(sign_ins.take(session, state="state", browser="cookie"))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert sorted(results, key=str) == ["/", None]
