from ampspec.jobs import ACTIVE, TERMINAL, TRANSITIONS, State
from ampspec.jobs.states import source_states


def reachable(start):
    found, pending = set(), [start]
    while pending:
        state = pending.pop()
        if state not in found:
            found.add(state)
            pending += TRANSITIONS[state]
    return found


def test_every_state_has_transitions_and_is_reachable():
    assert set(TRANSITIONS) == set(State)
    assert reachable(State.QUEUED) == set(State)


def test_every_state_leads_to_a_terminal_state():
    assert all(reachable(state) & TERMINAL for state in State)


def test_success_is_final():
    assert not TRANSITIONS[State.SUCCEEDED]


def test_no_state_is_both_active_and_terminal():
    assert not ACTIVE & TERMINAL
    assert State.QUEUED.is_active is State.QUEUED.is_terminal is False
    assert State.RUNNING.is_active
    assert State.FAILED.is_terminal


def test_source_states_are_the_inverse_of_the_transitions():
    for target in State:
        assert source_states(target) == {state for state in State if target in TRANSITIONS[state]}
