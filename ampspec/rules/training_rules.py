"""Rules about the loss scale, the optimizers, the initial weights and the ranks of a spec."""

from collections.abc import Iterator
from typing import Any

from ampspec.documents.problems import Parts, Problem, closest_match, json_pointer
from ampspec.objectives.optimizer import Momentum, PackageOptimizer, Sgd
from ampspec.precision.precision import AdaptiveScale, NoScale
from ampspec.training.ranks import MAX_RANKS


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


def averages_need_builtin_optimizers(parts: Parts) -> Iterator[Problem]:
    """Optimizers of packages do not support the moving average of weights."""
    for location, optimizer in _optimizers(parts):
        if isinstance(optimizer, PackageOptimizer) and optimizer.ema is not None:
            yield Problem(
                json_pointer((*location, "ema")),
                "not_available",
                "null, since optimizers of packages do not average weights",
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
    """The initial weights come from a job or a file, not both."""
    init = parts.get("init")
    if init is not None and init.job is not None and init.weights is not None:
        yield Problem("/init/weights", "two_sources", "either job or weights", "both")


def ranks_are_possible(parts: Parts) -> Iterator[Problem]:
    """The number of ranks is within bounds, including `elastic`, and the engine supports it."""
    runtime = parts.get("runtime")
    if runtime is None:
        return
    if runtime.ranks > MAX_RANKS:
        expected = f"workers × devices of at most {MAX_RANKS}"
        yield Problem("/runtime/workers", "out_of_bounds", expected, str(runtime.ranks))
    elastic = runtime.elastic
    if elastic is not None and not elastic.min <= runtime.ranks <= elastic.max:
        yield Problem(
            "/runtime/elastic",
            "out_of_bounds",
            f"bounds around workers × devices, which is {runtime.ranks}",
            f"{elastic.min} to {elastic.max}",
        )
    if runtime.engine == "xla_loop" and (runtime.ranks > 1 or elastic is not None):
        yield Problem(
            "/runtime/engine",
            "not_available",
            "auto, graph or xla_step with several ranks: inside an XLA program they cannot "
            "communicate between processes",
            "xla_loop",
        )
    if runtime.engine == "xla_step" and runtime.exchange.batch_norm == "sync":
        yield Problem(
            "/runtime/exchange/batch_norm",
            "not_available",
            "local or mean with the engine xla_step: sync communicates inside the gradients",
            "sync",
        )


def float16_exchange_needs_a_loss_scale(parts: Parts) -> Iterator[Problem]:
    """Gradients that travel in float16 without a loss scale would lose their small values."""
    runtime, scale = parts.get("runtime"), parts.get("loss_scale")
    if runtime is None or runtime.exchange.gradient_dtype != "float16":
        return
    if isinstance(scale, NoScale):
        yield Problem(
            "/runtime/exchange/gradient_dtype",
            "needs_loss_scale",
            "bfloat16 or float32 without a loss scale, or loss_scale.mode: dynamic",
            "float16",
        )


def one_rank_for_custom_code(parts: Parts) -> Iterator[Problem]:
    """Custom code runs in a sandbox without a network, where ranks cannot reach each other."""
    runtime, model = parts.get("runtime"), parts.get("model")
    if runtime is None or model is None or model.kind != "bundle":
        return
    if runtime.ranks > 1 or runtime.elastic is not None:
        name = "workers" if runtime.workers > 1 else "devices"
        expected = (
            "1: custom code runs in a sandbox without a network, where its ranks could not reach "
            "each other"
        )
        yield Problem(f"/runtime/{name}", "not_available", expected, str(getattr(runtime, name)))
