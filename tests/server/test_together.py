"""What many requests ask for at one moment, done in one go."""

import asyncio
import threading

import pytest

from server.together import MOST, Together
from tests.waiting import DEADLINE_S


class Rounds:
    """Doubles numbers, remembers with whom, and can be held up."""

    def __init__(self):
        self.rounds = []
        self.open = threading.Event()
        self.open.set()

    def __call__(self, numbers):
        self.rounds.append(list(numbers))
        assert self.open.wait(DEADLINE_S)
        return [ValueError(number) if number < 0 else 2 * number for number in numbers]


@pytest.fixture
def rounds():
    return Rounds()


@pytest.fixture
def together(rounds):
    return Together(rounds)


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


async def ask_all(together, numbers):
    asked = (together.ask(number) for number in numbers)
    return await asyncio.gather(*asked, return_exceptions=True)


def test_all_who_ask_at_one_moment_are_answered_in_one_round(together, rounds):
    assert asyncio.run(ask_all(together, [3, 1, 2])) == [6, 2, 4]
    assert rounds.rounds == [[3, 1, 2]]


def test_no_round_is_too_long(together, rounds):
    numbers = list(range(MOST + 1))
    assert asyncio.run(ask_all(together, numbers)) == [2 * number for number in numbers]
    assert rounds.rounds == [numbers[:MOST], numbers[MOST:]]


def test_who_comes_during_a_round_waits_for_the_next(together, rounds):
    """Fails when a question joins the round that is under way, which may not see what was new."""

    async def ask():
        rounds.open.clear()
        early = asyncio.create_task(together.ask(1))
        await until(lambda: rounds.rounds)
        late = [asyncio.create_task(together.ask(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        rounds.open.set()
        return await asyncio.gather(early, *late)

    assert asyncio.run(ask()) == [2, 4, 6]
    assert rounds.rounds == [[1], [2, 3]]


def test_an_error_is_told_to_whom_it_belongs(together):
    one, error, other = asyncio.run(ask_all(together, [1, -1, 2]))
    assert (one, other) == (2, 4)
    assert isinstance(error, ValueError)


def test_an_error_of_the_round_is_told_to_all_and_is_over(together, rounds):
    async def ask():
        failed = await ask_all(together, ["no number", 1])
        return failed, await ask_all(together, [1])

    failed, after = asyncio.run(ask())
    assert all(isinstance(one, TypeError) for one in failed)
    assert after == [2]


def test_who_goes_away_takes_nothing_from_the_others(together, rounds):
    async def ask():
        rounds.open.clear()
        asked = [asyncio.create_task(together.ask(number)) for number in (1, 2)]
        await until(lambda: rounds.rounds)
        asked[0].cancel()
        rounds.open.set()
        return await asked[1], await together.ask(3)

    assert asyncio.run(ask()) == (4, 6)
