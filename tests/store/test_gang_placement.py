"""The plan of reservations, alone and in a simulation of gangs and small jobs."""

import random
from dataclasses import replace
from itertools import pairwise

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from store.scheduling.gang_placement import (
    DRAIN_AFTER_S,
    DRAINING_S,
    RESERVE_S,
    GangSize,
    Share,
    WaitingGang,
    WorkerSlots,
    draining_s,
    plan,
)
from tests.store.gang_simulation import Running, Simulation

SLOTS = 8


def gang(workers=1, devices=1, *, waited_s=0.0, least=None, batches=None, **parts):
    ranks = workers * devices
    size = GangSize(workers, devices, least or ranks, ranks, batches or ranks)
    return WaitingGang(parts.pop("job_id", "a"), size, waited_s, **parts)


def nodes(*slots, **parts):
    return [WorkerSlots(f"w{number}", count, **parts) for number, count in enumerate(slots)]


def shares(reservations):
    return [
        {share.worker_id: share.ranks for share in reservation.shares}
        for reservation in reservations
    ]


def test_a_gang_gets_workers_with_enough_free_slots():
    reservations = plan([gang(2, 2)], nodes(1, 2, 4, 2))
    assert shares(reservations) == [{"w1": 2, "w3": 2}]
    assert (reservations[0].lasts_s, reservations[0].is_draining) == (RESERVE_S, False)


def test_a_gang_is_reserved_all_its_slots_or_none():
    assert plan([gang(2, 2)], [WorkerSlots("w0", 2), WorkerSlots("w1", 2, busy=1)]) == []


def test_slots_that_are_reserved_for_one_gang_are_not_given_to_another():
    reservations = plan([gang(2, 1, job_id="a"), gang(2, 1, job_id="b")], nodes(1, 1, 1))
    assert [reservation.job_id for reservation in reservations] == ["a"]


def test_two_gangs_never_each_reserve_half_of_what_they_need():
    late = [gang(4, 1, job_id=name, waited_s=DRAIN_AFTER_S) for name in "ab"]
    reservations = plan(late, nodes(1, 1, 1, 1, busy=1))
    assert [(reservation.job_id, reservation.is_draining) for reservation in reservations] == [
        ("a", True)
    ]


def test_a_gang_that_has_waited_reserves_busy_slots():
    busy = [WorkerSlots("w0", 2, busy=2), WorkerSlots("w1", 2, busy=1)]
    assert plan([gang(1, 2, waited_s=DRAIN_AFTER_S - 1)], busy) == []
    [reservation] = plan([gang(1, 2, waited_s=DRAIN_AFTER_S)], busy)
    assert (reservation.shares, reservation.lasts_s, reservation.is_draining) == (
        (Share("w1", 2),),
        DRAINING_S,
        True,
    )


def test_after_a_reservation_of_busy_slots_other_jobs_get_them_for_a_time():
    assert plan([gang(1, 2, waited_s=900, may_drain=False)], nodes(2, busy=1)) == []


def test_a_gang_that_no_workers_could_hold_reserves_nothing():
    assert plan([gang(1, 4, waited_s=900)], nodes(2, 2, 2, busy=1)) == []
    assert plan([gang(4, 1, waited_s=900, queue="gpu")], nodes(1, 1, 1, 1)) == []


def test_slots_that_become_free_elsewhere_replace_busy_ones():
    held = gang(1, 2, waited_s=60, reserved=(Share("w0", 2),), is_draining=True)
    both = [WorkerSlots("w0", 2, busy=1, reserved=2), WorkerSlots("w1", 2)]
    assert shares(plan([held], both)) == [{"w1": 2}]
    # The same slots are free now: its worker gets ready, and the reservation stays.
    assert plan([held], [WorkerSlots("w0", 2, reserved=2), WorkerSlots("w1", 2, busy=2)]) == []


def test_workers_on_different_machines_with_loopback_addresses_are_not_combined():
    apart = [WorkerSlots("w0", 1, only_on="one"), WorkerSlots("w1", 1, only_on="two")]
    assert plan([gang(2, 1)], apart) == []
    together = [replace(node, only_on="one") for node in apart]
    assert shares(plan([gang(2, 1)], together)) == [{"w0": 1, "w1": 1}]
    assert plan([gang(2, 1)], [WorkerSlots("w0", 1), together[1]]) == []


def test_an_elastic_gang_starts_smaller_when_workers_are_gone():
    elastic = gang(4, 1, least=1, batches=4)
    assert shares(plan([elastic], nodes(1, 1, 1, 1))) == [{f"w{n}": 1 for n in range(4)}]
    # Three ranks cannot share four batches.
    assert shares(plan([elastic], nodes(1, 1, 1))) == [{"w0": 1, "w1": 1}]
    assert shares(plan([gang(1, 4, least=1, batches=4)], nodes(2))) == [{"w0": 2}]


def test_an_elastic_gang_waits_for_its_full_size_before_it_starts_with_fewer_ranks():
    half = [WorkerSlots("w0", 1), WorkerSlots("w1", 1, busy=1)]
    assert plan([gang(2, 1, least=1)], half) == []
    assert shares(plan([gang(2, 1, least=1, waited_s=DRAIN_AFTER_S)], half)) == [{"w0": 1}]


def test_reservations_of_busy_slots_last_longer_each_time():
    assert [
        draining_s(draining_reservations) / DRAINING_S for draining_reservations in range(4)
    ] == [1, 2, 4, 8]
    assert draining_s(10**6) == draining_s(10**3)


def random_size(generator, split):
    devices = generator.choice([count for count in (1, 2, 4, 8) if count <= max(split)])
    workers = generator.randint(1, sum(count >= devices for count in split))
    ranks = workers * devices
    return GangSize(workers, devices, generator.choice([ranks, 1]), ranks, ranks)


# Without shrinking: a world in which gangs starve is simulated for long.
@settings(max_examples=8, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(
    st.sampled_from([(8,), (4, 4), (2, 2, 2, 2), (1,) * 8, (1, 1, 2, 4)]),
    st.integers(0, 2**32),
    st.sampled_from([0, 2]),
)
def test_100_gangs_on_8_slots_all_run_and_so_do_small_jobs(split, seed, small_a_second):
    """Random gangs come over time, and small jobs; with 2 a second they alone fill all slots.

    Checked: without reservations of busy slots gangs starve.
    """
    generator = random.Random(seed)
    world = Simulation({f"w{n}": count for n, count in enumerate(split)})
    coming, slack_s = 100, 600.0
    while (coming or world.gangs) and world.now < 3000:
        if coming and generator.random() < 0.2:
            coming -= 1
            world.submit(f"{coming:03}", random_size(generator, split), generator.uniform(1, 20))
        for _ in range(small_a_second):
            world.submit_small(generator.uniform(1, 8))
        world.second()
    assert world.gangs == [], "gangs starve"
    # Neither kind waits much longer than the other, although small jobs alone fill all slots.
    # The small jobs that still wait count, too: the first of them for the longest time.
    small_waits = [*world.small_waits, *(world.now - submitted for submitted, _ in world.small)]
    longest, longest_small = max(world.gang_waits.values()), max(small_waits, default=0.0)
    assert longest <= longest_small + slack_s
    assert longest_small <= longest + slack_s
    assert not small_a_second or len(world.small_waits) > 100


def test_small_jobs_run_between_the_reservations_of_a_gang_that_cannot_start():
    """A job that never ends occupies a slot that the gang needs.

    Checked: if reservations of busy slots never end, no small job starts again.
    """
    world = Simulation({"w0": 2})
    world.running.append(Running((Share("w0", 1),), 10.0**9))
    world.submit("a", GangSize(1, 2, 2, 2, 2), 5.0)
    for _ in range(12_000):
        if len(world.small) < 5:
            world.submit_small(10.0)
        world.second()
    assert world.gang_waits == {}
    assert world.draining_reservations["a"] >= 4
    pauses = [later - earlier for earlier, later in pairwise(world.small_starts)]
    assert max(pauses) <= draining_s(world.draining_reservations["a"] - 1) + 11
    assert len(world.small_starts) > 300


def test_a_gang_runs_although_jobs_last_longer_than_its_first_reservations():
    """Checked: if each reservation is as short as the first one, the gang waits for ever."""
    world = Simulation({"w0": 2})
    world.running.append(Running((Share("w0", 1),), 3 * DRAINING_S))
    world.submit("a", GangSize(1, 2, 2, 2, 2), 5.0)
    while not world.gang_waits and world.now < 100 * DRAINING_S:
        if len(world.small) < 5:
            world.submit_small(4 * DRAINING_S)
        world.second()
    assert DRAINING_S < world.gang_waits["a"] < 20 * DRAINING_S


def test_a_worker_for_one_job_runs_no_ranks_of_another():
    workers_of_b = nodes(2, 2, job_id="b", queues=frozenset({"default"}))
    assert plan([gang(2, 1, job_id="a")], workers_of_b) == []
    assert shares(plan([gang(2, 1, job_id="b")], workers_of_b)) == [{"w0": 1, "w1": 1}]


def test_a_gang_takes_its_own_workers_before_those_of_its_queue():
    plain = nodes(1, 1)
    for count, expected in [(2, {"x0": 1, "x1": 1}), (3, {"x0": 1, "x1": 1, "w0": 1})]:
        of_job = [WorkerSlots(f"x{number}", 4, job_id="a") for number in range(2)]
        assert shares(plan([gang(count, 1)], [*plain, *of_job])) == [expected]


def test_an_elastic_gang_waits_for_all_workers_that_start_with_the_first():
    elastic = gang(2, 1, least=1, waited_s=2 * DRAIN_AFTER_S)
    first = WorkerSlots("x0", 1, job_id="a", age_s=1)
    assert plan([elastic], [first]) == []
    assert shares(plan([elastic], [first, replace(first, worker_id="x1")])) == [{"x0": 1, "x1": 1}]
    alone = replace(first, age_s=DRAIN_AFTER_S + 1)
    assert shares(plan([elastic], [alone])) == [{"x0": 1}]
