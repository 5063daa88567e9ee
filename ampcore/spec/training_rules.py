"""Rules about the loss scale, the optimizers, the initial weights and the workers of a spec."""

from collections.abc import Iterator

from ampcore.spec.optimizer import Momentum, Sgd
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
    own = (parts.get("optimizers") or {}).items()
    every = {("optimizer",): parts.get("optimizer")} | {("optimizers", name): o for name, o in own}
    for location, optimizer in every.items():
        if isinstance(optimizer, Sgd | Momentum) and optimizer.nesterov and not optimizer.momentum:
            expected = "a momentum above 0 with nesterov: true"
            yield Problem(json_pointer((*location, "momentum")), "out_of_bounds", expected, "0")


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


def elastic_contains_ranks(parts: Parts) -> Iterator[Problem]:
    """elastic.min ≤ workers x devices ≤ elastic.max."""
    runtime = parts.get("runtime")
    if runtime is None or runtime.elastic is None:
        return
    ranks, elastic = runtime.workers * runtime.devices, runtime.elastic
    if elastic.min > ranks:
        expected = f"at most the {ranks} ranks of workers x devices"
        yield Problem("/runtime/elastic/min", "out_of_bounds", expected, str(elastic.min))
    if elastic.max < ranks:
        expected = f"at least the {ranks} ranks of workers x devices"
        yield Problem("/runtime/elastic/max", "out_of_bounds", expected, str(elastic.max))


def one_rank_for_own_code(parts: Parts) -> Iterator[Problem]:
    """Own code runs in a sandbox without a network, where ranks cannot reach each other."""
    runtime, model = parts.get("runtime"), parts.get("model")
    if runtime is None or model is None or model.kind != "bundle":
        return
    name = "workers" if runtime.workers > 1 else "devices"
    if runtime.workers * runtime.devices > 1 or runtime.elastic is not None:
        yield Problem(
            f"/runtime/{name}",
            "not_available",
            "1: a model with code of its own runs in a sandbox without a network, where its ranks "
            "could not reach each other",
            str(getattr(runtime, name)),
        )
