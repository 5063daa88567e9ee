"""Modules of 0.5 under the names that they had: importing one works until 0.7, and warns."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

NEW_NAMES: Final = {
    "ampcore.errors": "ampspec.errors",
    "ampcore.formats": "ampdata",
    "ampcore.formats.description": "ampdata.description",
    "ampcore.packages": "ampcore.plugins",
    "ampcore.spec": "ampspec.jobs",
    "ampcore.spec.file_formats": "ampspec.data.file_formats",
    "ampcore.telemetry": "ampspec.telemetry",
}


class OldNames(MetaPathFinder, Loader):
    """Finds a module of `NEW_NAMES` under its old name."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that has the contents of another one."""
        if fullname not in NEW_NAMES:
            return None
        message = f"{fullname} is now {NEW_NAMES[fullname]}; the old name goes with 0.7"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Fill it with the names of the other module."""
        contents = vars(import_module(NEW_NAMES[module.__name__]))
        vars(module).update({k: v for k, v in contents.items() if not k.startswith("__")})


def install() -> None:
    """Let `import` find the old names."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
