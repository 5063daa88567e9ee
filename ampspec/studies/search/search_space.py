"""The space of a search: parameter values on a grid, and their form in optuna."""

import json
from collections.abc import Mapping, Sequence
from math import exp, log, prod
from typing import TYPE_CHECKING, Any

from ampspec.api.study_requests import Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Space = Mapping[str, Parameter]
"""The parameters by dotted path."""
Values = Mapping[str, Any]
"""The values of one run by dotted path."""


def distributions(space: Space) -> "dict[str, BaseDistribution]":
    """The space for optuna. A choice is drawn by its index, so that it may be any JSON value."""
    return {path: _distribution(parameter) for path, parameter in space.items()}


def _distribution(parameter: Parameter) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choice is not None:
        return CategoricalDistribution(range(len(parameter.choice)))
    low, high = parameter.bounds
    if parameter.kind.endswith("int_uniform"):
        return IntDistribution(int(low), int(high), log=parameter.is_log)
    return FloatDistribution(low, high, log=parameter.is_log)


def decoded(space: Space, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The spec values for values drawn by optuna."""
    return {path: _decoded(parameter, drawn[path]) for path, parameter in space.items()}


def _decoded(parameter: Parameter, drawn: Any) -> Any:
    if parameter.choice is not None:
        return parameter.choice[drawn]
    return _rounded(parameter, drawn) if isinstance(drawn, float) else drawn


def encoded(space: Space, values: Values) -> dict[str, Any]:
    """The values of a run in optuna's form."""
    return {path: _encoded(parameter, values[path]) for path, parameter in space.items()}


def _encoded(parameter: Parameter, value: Any) -> Any:
    if parameter.choice is None:
        return value
    # As text, since Python says that 1 == True.
    texts = [json.dumps(choice, sort_keys=True) for choice in parameter.choice]
    return texts.index(json.dumps(value, sort_keys=True))


def grid_values(parameter: Parameter) -> list[Any] | None:
    """The values on a grid; None for a range without a number of points."""
    if parameter.choice is not None:
        return list(parameter.choice)
    if parameter.points is None:
        return None
    low, high = parameter.bounds
    shares = [number / (parameter.points - 1) for number in range(parameter.points)]
    if parameter.is_log:
        points = [exp(log(low) + share * (log(high) - log(low))) for share in shares]
    else:
        points = [low + share * (high - low) for share in shares]
    if parameter.kind.endswith("int_uniform"):
        return list(dict.fromkeys(round(point) for point in points))
    return [_rounded(parameter, point) for point in points]


def combinations(space: Space) -> int | None:
    """The number of combinations; None with a continuous range."""
    sizes = []
    for parameter in space.values():
        if parameter.choice is not None:
            sizes.append(len(parameter.choice))
        elif parameter.kind.endswith("int_uniform"):
            low, high = parameter.bounds
            sizes.append(int(high) - int(low) + 1)
        else:
            return None
    return prod(sizes)


def examples(parameter: Parameter) -> Sequence[Any]:
    """Values whose validity implies that of all values: each choice, or the bounds of a range."""
    if parameter.choice is not None:
        return parameter.choice
    low, high = getattr(parameter, parameter.kind)
    return [low, high]


def _rounded(parameter: Parameter, value: float) -> float:
    """Six digits, so that a spec is readable; never outside of the bounds."""
    low, high = parameter.bounds
    return min(max(float(f"{value:.6g}"), low), high)
