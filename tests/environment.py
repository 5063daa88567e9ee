"""Settings read from given environment variables."""

import os
from collections.abc import Mapping
from typing import TypeVar
from unittest.mock import patch

from infra.settings import SharedSettings

S = TypeVar("S", bound=SharedSettings)


def settings_from(kind: type[S], variables: Mapping[str, str]) -> S:
    """The settings of a process that has only these variables."""
    with patch.dict(os.environ, variables, clear=True):
        return kind.from_environment()
