"""What the tests of the store share."""

import pytest
from sqlalchemy import update

from store import jobs
from store.tables import Job


@pytest.fixture
def put(database):
    """Write columns of a job directly, to set up what only time would lead to."""

    def put(job_id, **values):
        with database.write() as session:
            session.execute(update(Job).where(Job.id == job_id).values(**values))

    return put


@pytest.fixture
def do(database):
    """Call a function of the store in a transaction of its own."""

    def do(function, *arguments, **named):
        with database.write() as session:
            return function(session, *arguments, **named)

    return do


@pytest.fixture
def state_of(database):
    """The state of a job."""

    def state_of(job_id):
        with database.read() as session:
            return jobs.get(session, job_id).state

    return state_of
