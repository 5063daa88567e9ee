"""What `ampctl submit` posts: each file in every combination of a grid, checked before any goes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from ampclient.cli.grid import Variant
from ampclient.cli.problems import error_lines
from ampclient.errors import InvalidSpec

if TYPE_CHECKING:
    from ampclient.client import Client

T = TypeVar("T")
LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class Post:
    """A document to post, the words of a grid that its name is to end with, and its origin."""

    document: dict[str, Any]
    suffix: str
    source: str
    """The file, and what the grid set in it."""


class Refused(Exception):
    """Some documents have mistakes; `blocks` are the lines that tell those of each."""

    def __init__(self, blocks: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.blocks = blocks


def posts_of(
    files: Sequence[tuple[str, bytes]], assignments: Sequence[str], variants: Sequence[Variant]
) -> list[Post]:
    """Each file with the assignments, once for each variant. Raises InvalidSpec, Refused."""
    wanted = [(name, data, variant) for name, data in files for variant in variants]

    def made(one: tuple[str, bytes, Variant]) -> Post:
        name, data, variant = one
        document = document_in(data, [*assignments, *variant.assignments])
        return Post(document, variant.suffix, " ".join([name, *variant.assignments]))

    return _each(wanted, made, lambda one: " ".join([one[0], *one[2].assignments]))


def checked(client: "Client", posts: Sequence[Post]) -> list[Post]:
    """The same, with their full names, once the server would take them all. Raises Refused."""

    def named(post: Post) -> Post:
        validated = client.jobs.validate(post.document)
        if not post.suffix:
            return post
        room = LONGEST_NAME - len(post.suffix) - 1
        name = f"{validated.spec['name'][: max(room, 0)]} {post.suffix}"[:LONGEST_NAME].strip()
        return replace(post, document={**post.document, "name": name})

    return _each(posts, named, lambda post: post.source)


def document_in(data: bytes, assignments: Sequence[str]) -> dict[str, Any]:
    """The document in a file, with the assignments. Raises InvalidSpec."""
    from ampclient import documents

    with wrong_usage():
        return documents.document_in(data, assignments)


@contextmanager
def wrong_usage() -> Iterator[None]:
    """An assignment that names no field is wrong usage, not a bad spec."""
    try:
        yield
    except InvalidSpec as error:
        for problem in error.problems:
            if problem.code == "bad_assignment" and not problem.pointer:
                raise typer.BadParameter(problem.detail, param_hint="--set") from None
        raise


def _each(items: Sequence[T], make: Callable[[T], Post], source: Callable[[T], str]) -> list[Post]:
    """What is made of each; the mistakes of all are told together, the same ones once."""
    posts: list[Post] = []
    wrong: dict[tuple[str, ...], tuple[InvalidSpec, list[str]]] = {}
    for item in items:
        try:
            posts.append(make(item))
        except InvalidSpec as error:
            if len(items) == 1:
                raise
            wrong.setdefault(error.entries, (error, []))[1].append(source(item))
    if wrong:
        raise Refused([error_lines(error, about=_counted(of)) for error, of in wrong.values()])
    return posts


def _counted(sources: Sequence[str]) -> str:
    more = f" (and {len(sources) - 1} more)" if len(sources) > 1 else ""
    return f"{sources[0]}{more}"
