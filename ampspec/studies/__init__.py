"""The precision laboratory: the questions that studies answer, without TensorFlow.

A study asks one question of several ordinary jobs. Each kind of study says which jobs it needs next
and computes its answer from their results; it reads no database and no clock.
"""
