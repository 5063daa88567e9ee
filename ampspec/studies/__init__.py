"""Studies: questions answered by running several ordinary jobs, without TensorFlow.

Each kind of study plans the jobs that it needs next and computes its answer from their results; it
reads no database and no clock.
"""
