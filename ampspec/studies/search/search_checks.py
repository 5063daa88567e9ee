"""Checks a search before it starts: the paths and values of its space, and the needs of ASHA."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ampspec.api.study_requests import MAX_RUNS, Parameter, SearchOptions
from ampspec.documents.assignments import with_values
from ampspec.documents.problems import format_value, json_pointer
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.preflight.data import total_steps
from ampspec.studies.metric import validation_problems
from ampspec.studies.plan import StudyContext
from ampspec.studies.search.samplers import run_count
from ampspec.studies.search.search_space import examples, grid_values

NOT_SEARCHED: Final = ("name", "labels")
"""Sections that the study sets itself."""
LENGTH: Final = ("train.steps", "train.epochs")


def problems(context: StudyContext[SearchOptions]) -> list[Problem]:
    """Problems of the options that depend on the spec; pointers are into the request."""
    options = context.options
    mistakes = list(_grid_problems(options))
    if "data.validation_split" not in options.space:
        mistakes += validation_problems(context.spec)
    for path, parameter in options.space.items():
        mistakes += _path_problems(options, path) or _value_problems(context, path, parameter)
    if options.asha is not None and not mistakes:
        mistakes += _asha_problems(context)
    return mistakes


def _grid_problems(options: SearchOptions) -> Iterator[Problem]:
    if options.method != "grid":
        return
    if options.runs is not None:
        expected = "null with the method grid, which tries every combination"
        yield Problem("/options/runs", "invalid_value", expected, str(options.runs))
    without = [path for path, parameter in options.space.items() if grid_values(parameter) is None]
    for path in without:
        pointer = json_pointer(["options", "space", path, "points"])
        expected = "a number of points, since the method grid tries single values of a range"
        yield Problem(pointer, "invalid_value", expected, "null")
    if not without and (count := run_count(options)) > MAX_RUNS:
        expected = f"a grid of at most {MAX_RUNS} combinations"
        yield Problem("/options/space", "invalid_value", expected, str(count))


def _path_problems(options: SearchOptions, path: str) -> list[Problem]:
    pointer = json_pointer(["options", "space", path])
    if path.split(".", maxsplit=1)[0] in NOT_SEARCHED:
        expected = "a field that changes the training; the study sets names and labels"
        return [Problem(pointer, "invalid_value", expected, path)]
    if options.steps is not None and path in LENGTH:
        expected = "another path, or no option `steps`, which sets the length of every run"
        return [Problem(pointer, "invalid_value", expected, path)]
    overlapping = [other_path for other_path in options.space if path.startswith(f"{other_path}.")]
    if overlapping:
        expected = f"a path outside of {overlapping[0]}, which is also in the space"
        return [Problem(pointer, "invalid_value", expected, path)]
    return []


def _value_problems(
    context: StudyContext[SearchOptions], path: str, parameter: Parameter
) -> list[Problem]:
    """The first invalid value: alone, and with the first values of the other parameters.

    A field may exist only with another value of the space, as the momentum of an optimizer.
    """
    space = context.options.space
    firsts = {
        other_path: examples(other_parameter)[0]
        for other_path, other_parameter in space.items()
        if other_path != path
    }
    for value in examples(parameter):
        alone = _mistake(context.document, path, value, {path: value})
        if alone is None:
            continue
        if not firsts or _mistake(context.document, path, value, {**firsts, path: value}):
            return [alone]
    return []


def _mistake(
    document: Mapping[str, Any], path: str, value: Any, values: Mapping[str, Any]
) -> Problem | None:
    try:
        JobSpec.parse(with_values(dict(document), values))
    except SpecValidationError as error:
        first = error.problems[0]
        where = json_pointer(path.split("."))
        elsewhere = "" if first.pointer == where else f"{first.pointer}: "
        pointer = json_pointer(["options", "space", path])
        expected = f"{elsewhere}{first.expected}"
        received = format_value(value) if not elsewhere else first.received
        return Problem(pointer, first.code, expected, received, first.suggestion)
    return None


def _asha_problems(context: StudyContext[SearchOptions]) -> Sequence[Problem]:
    spec, options = context.spec, context.options
    if spec.train.early_stopping is not None:
        expected = "null with asha, which stops runs itself"
        return [Problem("/spec/train/early_stopping", "invalid_value", expected, "an object")]
    if spec.train.checkpoint_every_s is None:
        expected = "a number with asha, which continues runs from their checkpoints"
        return [Problem("/spec/train/checkpoint_every_s", "invalid_value", expected, "null")]
    total = options.steps or total_steps(spec)
    if total is None:
        expected = (
            "a number with asha, since the length of a run is unknown before the data is read"
        )
        return [Problem("/options/steps", "invalid_value", expected, "null")]
    asha = options.asha
    if asha is not None and asha.min_steps >= total:
        expected = f"less than the {total} steps of a whole run"
        pointer = "/options/asha/min_steps"
        return [Problem(pointer, "invalid_value", expected, str(asha.min_steps))]
    return []
