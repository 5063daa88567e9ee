"""Parts of JSON columns, so that the database groups and reads only what is needed."""

import json
from typing import Any

from sqlalchemy import Text, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

from store.tables.base import JsonColumn


class _JsonText(FunctionElement[str]):
    """The text at a path; NULL where there is nothing, or no valid JSON."""

    name = "json_text"
    type = Text()
    inherit_cache = True


def json_text(column: Any, *path: str) -> Any:
    """The text at a path of names in a JSON column: the JSON of an object, the text of a string."""
    return _JsonText(column, *map(literal, path))


def parse_json(text: str | None) -> Any:
    """The value of a text from `json_text`; None if it is not JSON."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


class _JsonWithout(FunctionElement[Any]):
    """A JSON object without a key; any other value as it is."""

    name = "json_without"
    type = JsonColumn
    inherit_cache = True


def json_without(column: Any, key: str) -> Any:
    """The object in a JSON column without one of its keys."""
    return _JsonWithout(column, literal(key))


@compiles(_JsonWithout, "sqlite")
def _without_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    expression = f"json_remove({column}, '$.' || {key})"
    return f"CASE WHEN json_valid({column}) THEN {expression} ELSE {column} END"


@compiles(_JsonWithout, "postgresql")
def _without_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    expression = f"{column} - CAST({key} AS text)"
    return f"CASE WHEN jsonb_typeof({column}) = 'object' THEN {expression} ELSE {column} END"


@compiles(_JsonText, "sqlite")
def _sqlite(element: Any, compiler: Any, **options: Any) -> str:
    column, *path = (compiler.process(clause, **options) for clause in element.clauses)
    steps = " || ".join(f"'.' || {name}" for name in path)
    extracted = f"CAST(json_extract({column}, '$' || {steps}) AS TEXT)"
    return f"CASE WHEN json_valid({column}) THEN {extracted} END"


@compiles(_JsonText, "postgresql")
def _postgresql(element: Any, compiler: Any, **options: Any) -> str:
    column, *path = (compiler.process(clause, **options) for clause in element.clauses)
    names = ", ".join(f"CAST({name} AS text)" for name in path)
    return f"({column} #>> ARRAY[{names}])"
