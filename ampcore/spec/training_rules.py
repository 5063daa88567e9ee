"""Rules about the loss scale, the optimizers, the initial weights and the workers of a spec."""

from collections.abc import Iterator
from typing import Any

from ampcore.spec.optimizer import Momentum, PackageOptimizer, Sgd
from ampcore.spec.precision import AdaptiveScale
from ampcore.spec.problems import Parts, Problem, closest_match, json_pointer


def loss_scale_bounds(parts: Parts) -> Iterator[Problem]:
    """minimum ≤ initial ≤ maximum."""
    scale = parts.get("loss_scale")
    if isinstance(scale, AdaptiveScale) and not scale.minimum <= scale.initial <= scale.maximum:
        yield Problem(
            "/loss_scale/initial",
            "out_of_bounds",
            f"a scale from minimum ({scale.minimum:.10g}) to maximum ({scale.maximum:.10g})",
            f"{scale.initial:.10g}",
        )


def nesterov_needs_momentum(parts: Parts) -> Iterator[Problem]:
    """Nesterov momentum needs a momentum above 0."""
    for location, optimizer in _optimizers(parts):
        if isinstance(optimizer, Sgd | Momentum) and optimizer.nesterov and not optimizer.momentum:
            expected = "a momentum above 0 with nesterov: true"
            yield Problem(json_pointer((*location, "momentum")), "out_of_bounds", expected, "0")


def averages_need_own_optimizers(parts: Parts) -> Iterator[Problem]:
    """An optimizer of a package does not keep ampcore's average of the weights."""
    for location, optimizer in _optimizers(parts):
        if isinstance(optimizer, PackageOptimizer) and optimizer.ema is not None:
            yield Problem(
                json_pointer((*location, "ema")),
                "not_available",
                "null, since an optimizer of a package keeps no average of the weights",
                f"{optimizer.ema:g}",
            )


def _optimizers(parts: Parts) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every optimizer of a spec and its place; None where that part is invalid."""
    yield ("optimizer",), parts.get("optimizer")
    for name, optimizer in (parts.get("optimizers") or {}).items():
        yield ("optimizers", name), optimizer


def optimizers_name_networks(parts: Parts) -> Iterator[Problem]:
    """Only a model with several networks takes an optimizer per network."""
    model, optimizers = parts.get("model"), parts.get("optimizers")
    if model is None or not optimizers:
        return
    names = model.networks if len(model.networks) > 1 else ()
    for name in optimizers:
        if name not in names:
            expected = (
                f"one of the networks {', '.join(names)}"
                if names
                else f"no entries: the model {model.kind} has one network, configured by optimizer"
            )
            yield Problem(
                json_pointer(("optimizers", name)),
                "unknown_network",
                expected,
                name,
                closest_match(name, names),
            )


def one_weights_source(parts: Parts) -> Iterator[Problem]:
    """The initial weights are those of a job or of a file, not of both."""
    init = parts.get("init")
    if init is not None and init.job is not None and init.weights is not None:
        yield Problem("/init/weights", "two_sources", "either job or weights", "both")


def one_device(parts: Parts) -> Iterator[Problem]:
    """A job trains on one device: more are refused instead of ignored."""
    runtime = parts.get("runtime")
    if runtime is not None and runtime.devices != 1:
        yield Problem(
            "/runtime/devices",
            "not_available",
            "1: this version of ampcore trains on one device",
            str(runtime.devices),
        )
