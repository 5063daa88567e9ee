"""Key steps match a naive reference that reads every step."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.key_steps import (
    KeySteps,
    LastLossScales,
    decode_key_steps,
    encode_key_steps,
)

scales = st.sampled_from([1.0, 2.0, 1024.0, math.nan])
steps = st.lists(st.tuples(scales, scales, st.booleans()), min_size=1, max_size=30)


def block_of(first, rows):
    one, other, skipped = zip(*rows, strict=True)
    return StepBlock(first, {"loss_scale": one, "loss_scale/b": other, "skipped": skipped})


def differ(one, other):
    return one != other and not (math.isnan(one) or math.isnan(other))


def naive(blocks):
    rows = [row for block in blocks for row in block.rows()]
    skipped = [row["step"] for row in rows if row["skipped"]]
    changes = [
        (row["step"], name, before[name], row[name])
        for before, row in pairwise(rows)
        for name in ("loss_scale", "loss_scale/b")
        if differ(before[name], row[name])
    ]
    return skipped, changes


def plain(key_steps):
    changes = key_steps.changes
    rows = zip(changes.steps, changes.columns, changes.old_scales, changes.new_scales, strict=True)
    return key_steps.skipped.tolist(), [(int(s), c, float(b), float(a)) for s, c, b, a in rows]


def of_all(blocks):
    parts, before = [], LastLossScales.unknown()
    for block in blocks:
        parts.append(KeySteps.of(block, before))
        before = LastLossScales.of(block)
    return KeySteps.concat(parts)


@settings(deadline=None)
@given(st.integers(0, 2**40), st.lists(steps, min_size=1, max_size=4), st.integers(0, 9))
def test_key_steps_match_the_naive_reference(first, pieces, gap):
    blocks = []
    for rows in pieces:
        blocks.append(block_of(first, rows))
        first = blocks[-1].end_step + gap
    key_steps = of_all(blocks)
    assert repr(plain(key_steps)) == repr(naive(blocks))
    assert repr(plain(decode_key_steps(encode_key_steps(key_steps)))) == repr(plain(key_steps))


@settings(deadline=None)
@given(steps, st.integers(0, 40), st.integers(0, 40))
def test_between_keeps_the_key_steps_in_the_range(rows, start, end):
    key_steps = of_all([block_of(3, rows)])
    skipped, changes = plain(key_steps)
    inside = plain(key_steps.between(start, end))
    assert inside[0] == [step for step in skipped if start <= step < end]
    assert repr(inside[1]) == repr([change for change in changes if start <= change[0] < end])


def test_steps_without_skips_and_scales_have_no_key_steps():
    nothing = KeySteps.concat([])
    assert plain(nothing) == ([], [])
    assert plain(decode_key_steps(encode_key_steps(nothing))) == ([], [])
    assert plain(KeySteps.of(StepBlock(0, {"loss": np.ones(3)}), LastLossScales.unknown())) == (
        [],
        [],
    )


def test_a_skipped_step_is_encoded_in_less_than_a_third_of_a_byte():
    steps = np.arange(1000, 260_000)
    key_steps = KeySteps(steps, KeySteps.concat([]).changes)
    assert len(encode_key_steps(key_steps)) < len(steps) / 3
