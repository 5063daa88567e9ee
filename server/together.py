"""Do in one go what many requests ask for at one moment.

While one round is under way, whoever asks waits for the next, which is for all of them: a crowd
costs one transaction at a time, and nobody's question is answered by what was true before it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Final, Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Question = TypeVar("Question")
Answer = TypeVar("Answer")

MOST: Final = 100
"""In one round: what comes after them shall not wait for long."""


class Together(Generic[Question, Answer]):
    """Answers the questions of one event loop, in rounds.

    Args:
        answer_all: Called in a thread, with the questions of a round; its answers, in their order.
            An exception among them is raised to whom it is the answer; one that it raises, to all.
    """

    def __init__(
        self, answer_all: Callable[[Sequence[Question]], Sequence[Answer | Exception]]
    ) -> None:
        self._answer_all = answer_all
        self._asked: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._rounds: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        """The answer, of a round that begins after this is called."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked.append((question, answer))
        if self._rounds is None or self._rounds.done():
            # What is logged there is of no single request.
            self._rounds = asyncio.create_task(self._go_round(), context=Context())
        return await answer

    async def _go_round(self) -> None:
        while self._asked:
            here = [self._asked.popleft() for _ in range(min(len(self._asked), MOST))]
            questions = [question for question, _ in here]
            answers: Sequence[Answer | Exception]
            try:
                answers = await run_in_threadpool(self._answer_all, questions)
            except Exception as error:
                answers = [error] * len(here)
            for (_, waiting), answer in zip(here, answers, strict=True):
                if waiting.done():  # who asked has gone away
                    continue
                if isinstance(answer, Exception):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)
