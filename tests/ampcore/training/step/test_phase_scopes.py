"""Name scopes of phases in the traced step."""

from contextlib import nullcontext

import pytest

from ampcore.phases import IN_STEP, phase_of
from ampcore.precision import transaction
from ampcore.training.step import accumulate, gradients, loop
from ampcore.training.step import train_step as step

MODULES = (accumulate, gradients, loop, step, transaction)


@pytest.fixture
def trace(make_step, make_loop):
    """Traces a loop: how often each operation occurs, and the phases of the operations."""

    def run():
        traced = make_loop(make_step()).loop
        functions = traced._call.graph.as_graph_def().library.function
        nodes = [node for function in functions for node in function.node_def]
        return traced.operations, {phase_of(node.name) for node in nodes}

    return run


def test_a_step_has_a_scope_for_each_phase_and_no_operation_more(trace, monkeypatch):
    operations, phases = trace()
    assert phases >= set(IN_STEP)
    for module in MODULES:
        monkeypatch.setattr(module, "phase_scope", lambda phase: nullcontext())
    without, phases = trace()
    assert not phases & set(IN_STEP)
    assert without == operations
