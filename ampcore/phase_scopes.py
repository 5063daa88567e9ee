"""Name scopes for the phases of a step, and spans for those outside of the compiled loop."""

from typing import Any

import tensorflow as tf

from ampcore.phases import SCOPE_PREFIX, Phase


def phase_scope(phase: Phase) -> Any:
    """A context in which traced operations have the name scope of a phase."""
    return tf.name_scope(f"{SCOPE_PREFIX}{phase}")


def phase_span(phase: Phase) -> Any:
    """A context whose time on the host is a span of a profile; free while nothing is profiled."""
    return tf.profiler.experimental.Trace(f"{SCOPE_PREFIX}{phase}")
