"""All architectures of the zoo, in the order of the table."""

from collections.abc import Iterator

from zoo import (
    applications,
    hub,
    patterns_attention,
    patterns_custom_steps,
    patterns_graphs,
    patterns_language,
    patterns_layers,
    patterns_losses,
    patterns_sequences,
    patterns_tables,
    patterns_vision,
)
from zoo.architecture import Architecture

MODULES = (
    applications,
    hub,
    patterns_sequences,
    patterns_attention,
    patterns_vision,
    patterns_tables,
    patterns_graphs,
    patterns_language,
    patterns_layers,
    patterns_losses,
    patterns_custom_steps,
)


def architectures() -> Iterator[Architecture]:
    """The architectures of all modules.

    Raises:
        ValueError: Two of them have one name.
    """
    names: set[str] = set()
    for module in MODULES:
        for architecture in module.ARCHITECTURES:
            if architecture.name in names:
                raise ValueError(f"two architectures are named {architecture.name!r}")
            names.add(architecture.name)
            yield architecture
