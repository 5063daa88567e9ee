"""Modules and their contents under the names of 0.5: they work until 0.7, and warn."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class OldNames(MetaPathFinder, Loader):
    """Finds modules under their old names.

    Args:
        new_names: The name of a module, by its old one.
    """

    def __init__(self, new_names: Mapping[str, str]) -> None:
        self.new_names = new_names

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that has the contents of another one."""
        if fullname not in self.new_names:
            return None
        message = f"{fullname} is now {self.new_names[fullname]}; the old name goes with 0.7"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Fill it with the names of the other module."""
        contents = vars(import_module(self.new_names[module.__name__]))
        shared = {name for name in contents if not name.startswith("__")} | {"__getattr__"}
        vars(module).update({name: contents[name] for name in shared & contents.keys()})


def install(new_names: Mapping[str, str]) -> None:
    """Let `import` find the old names."""
    installed = (finder for finder in sys.meta_path if isinstance(finder, OldNames))
    if all(finder.new_names is not new_names for finder in installed):
        sys.meta_path.append(OldNames(new_names))


def old_attributes(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module some of whose contents had other names.

    Args:
        module: The name of the module.
        new_names: The name of each of these contents, by its old one.

    Returns:
        A function that returns the contents by their old names, with a DeprecationWarning, and
        raises AttributeError for all other names.
    """

    def get(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        message = f"{name} is now {module}.{new_names[name]}; the old name goes with 0.7"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new_names[name])

    return get


def one_class_for(*names: str) -> dict[str, str]:
    """The names of a resource's classes, by those of 0.5, which had one for each kind of client."""
    return {
        f"{kind}{name}": name for name in names for kind in ("Base", "Async", "Raw", "AsyncRaw")
    }
