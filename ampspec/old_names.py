"""Modules under the names that they had in 0.5: importing one works until 0.7, and warns."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


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
