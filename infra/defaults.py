"""Default values of settings, for code that runs before pydantic and SQLAlchemy are imported."""

import os
from pathlib import Path
from typing import Final

DEFAULT_DATA_DIR: Final = Path("ampcore-data")
DEFAULT_REDIS_URL: Final = "redis://127.0.0.1:6379/0"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8470
DRAIN_TIMEOUT_S: Final = 600.0
"""How long a worker that shuts down still stores the files of its jobs."""


def sqlite_file(data_dir: Path) -> Path:
    """The embedded database in a data folder."""
    return data_dir / "ampcore.sqlite"


def sqlite_url(data_dir: Path) -> str:
    """The URL of the embedded database in a data folder."""
    return f"sqlite:///{sqlite_file(data_dir)}"


def data_dir_from_environment() -> Path:
    """The data folder in the environment, else ./ampcore-data: for `--data`."""
    return Path(os.environ.get("AMPCORE_DATA_DIR", "").strip() or DEFAULT_DATA_DIR).absolute()
