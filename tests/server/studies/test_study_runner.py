"""When the background thread advances a study; its rounds are called by the tests."""

import pytest

from server.background.study_runner import TASK, StudyRunner
from store import leaders, studies

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def runner(driver, clock):
    assert leaders.lead(driver.api.database, TASK, "first")
    return StudyRunner(driver.progress, server_id="first", every_s=1.0, clock=clock)


@ON_SQLITE
def test_a_study_is_advanced_as_soon_as_its_job_has_ended(driver, runner, clock):
    driver.report_cpu(memory_bytes=2**30)
    study = driver.create("capacity", options={"policies": ["float32"]})
    runner._round()
    [(first, job)] = driver.jobs(study).items()
    clock.now = 0.5  # before the next round of all studies
    runner._round()
    assert list(driver.jobs(study)) == [first]
    driver.succeed(job)
    runner._round()
    assert len(driver.jobs(study)) == 2
    with driver.api.database.read() as session:
        assert studies.with_ended_jobs(session) == []


@ON_SQLITE
def test_a_study_that_cannot_be_advanced_waits_for_the_next_round(
    driver, runner, clock, monkeypatch
):
    driver.report_cpu(memory_bytes=2**30)
    study = driver.create("capacity", options={"policies": ["float32"]})
    runner._round()
    [job] = driver.jobs(study).values()
    driver.succeed(job)
    calls = []

    def fail(study_id):
        calls.append(study_id)
        raise ValueError("broken")

    # StudyProgress is frozen.
    monkeypatch.setattr(type(driver.progress), "advance", lambda _self, study_id: fail(study_id))
    clock.now = 0.5
    runner._round()
    runner._round()
    assert calls == [study]
    clock.now = 1.5
    runner._round()
    assert calls == [study, study]


@ON_SQLITE
def test_the_plans_of_studies_that_are_not_advanced_any_more_are_forgotten(driver, runner):
    driver.report_cpu(memory_bytes=2**30)
    first, second = (driver.create("capacity", options={"policies": ["float32"]}) for _ in range(2))
    runner.advance_all()
    assert set(driver.progress._plans) == {first, second}
    with driver.api.database.write() as session:  # by another server
        studies.set_state(session, studies.get(session, first), studies.CANCELLED)
    runner.advance_all()
    assert set(driver.progress._plans) == {second}
    leaders.resign(driver.api.database, TASK, "first")
    runner.advance_all()
    assert driver.progress._plans == {}


@ON_SQLITE
def test_only_the_server_that_leads_advances_studies(driver, runner, clock, monkeypatch):
    """Fails if each of several servers plans each study in every round."""
    driver.report_cpu(memory_bytes=2**30)
    study = driver.create("capacity", options={"policies": ["float32"]})
    other = StudyRunner(driver.progress, server_id="other", every_s=1.0, clock=clock)
    calls = []
    monkeypatch.setattr(type(driver.progress), "advance", lambda _self, one: calls.append(one))
    runner._round()
    other._round()
    clock.now = 0.5
    other._round()
    assert calls == [study]
    leaders.resign(driver.api.database, TASK, "first")
    assert leaders.lead(driver.api.database, TASK, "other")
    clock.now = 1.5
    other._round()
    assert calls == [study, study]
