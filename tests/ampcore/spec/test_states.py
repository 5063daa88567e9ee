from ampcore.spec import ACTIVE, TERMINAL, TRANSITIONS, State
from ampcore.spec.states import source_states


def reachable(start):
    found, open_ = set(), [start]
    while open_:
        state = open_.pop()
        if state not in found:
            found.add(state)
            open_ += TRANSITIONS[state]
    return found


def test_every_state_has_its_transitions_and_can_be_reached():
    assert set(TRANSITIONS) == set(State)
    assert reachable(State.QUEUED) == set(State)


def test_every_job_can_end():
    assert all(reachable(state) & TERMINAL for state in State)


def test_success_is_final():
    assert not TRANSITIONS[State.SUCCEEDED]


def test_a_state_is_active_or_terminal_or_neither_but_not_both():
    assert not ACTIVE & TERMINAL
    assert State.QUEUED.is_active is State.QUEUED.is_terminal is False
    assert State.RUNNING.is_active
    assert State.FAILED.is_terminal


def test_sources_are_the_transitions_read_backwards():
    for target in State:
        assert source_states(target) == {state for state in State if target in TRANSITIONS[state]}
