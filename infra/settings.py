"""Settings from environment variables. An invalid one raises an error that names the variable.

The message quotes the value only if it cannot contain a secret.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ampspec.references.object_url import SCHEMES, InvalidUrl, ObjectUrl
from infra.defaults import DEFAULT_DATA_DIR, DRAIN_TIMEOUT_S
from infra.log_config import LogFormat

DATABASE_SCHEMES: Final = ("sqlite", "postgresql")
REDIS_SCHEMES: Final = ("redis", "rediss")
"""Schemes that Celery and redis-py both support; their URLs for sockets and Sentinel differ."""
ENV_PREFIX: Final = "AMPCORE_"
MAX_RECEIVED: Final = 80
"""Maximum number of characters of an invalid value in a message."""


class SettingsInvalid(ValueError):
    """Settings are missing or invalid; the message names each variable, one per line."""


def _check_database_url(text: str) -> str:
    from sqlalchemy import make_url  # imported here: `--help` does not need it
    from sqlalchemy.exc import ArgumentError

    try:
        kind = make_url(text).get_backend_name()
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise ValueError(
            "expected an address such as postgresql://user:password@host:5432/name "
            "or sqlite:////folder/file, received something else."
        ) from None
    if kind not in DATABASE_SCHEMES:
        raise ValueError(f"expected {' or '.join(DATABASE_SCHEMES)}, received {kind}.")
    return text


def _check_redis_url(text: str) -> str:
    if _scheme(text) not in REDIS_SCHEMES:
        raise ValueError(
            "expected an address such as redis://:password@host:6379/0, received something else."
        )
    return text


def _check_artifacts_url(text: str) -> str:
    if not _scheme(text) or "@" in text:
        raise ValueError(
            "expected an address such as file:///folder or s3://bucket/folder, "
            "without a password in it; received something else."
        )
    if _scheme(text) == "s3" and find_spec("s3fs") is None:
        raise ValueError("s3:// needs the package s3fs: pip install 'ampcore[s3]'.")
    return text


def _data_prefixes(text: Any) -> tuple[ObjectUrl, ...]:
    """Parse a comma-separated list of prefixes in object stores."""
    if not isinstance(text, str):
        return tuple(text)
    try:
        return tuple(ObjectUrl.parse_prefix(part.strip()) for part in text.split(","))
    except InvalidUrl:
        raise ValueError(
            "expected comma-separated prefixes such as s3://bucket/folder "
            f"({', '.join(SCHEMES)}), received {text[:MAX_RECEIVED]!r}."
        ) from None


def _scheme(text: str) -> str:
    """The scheme of a valid URL; empty if it is not valid."""
    try:
        address = urlsplit(text)
        _ = address.port
    except ValueError:
        return ""
    return address.scheme if "://" in text and (address.netloc or address.path) else ""


AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]
DatabaseUrl = Annotated[str, AfterValidator(_check_database_url)]
RedisUrl = Annotated[str, AfterValidator(_check_redis_url)]
ArtifactsUrl = Annotated[str, AfterValidator(_check_artifacts_url)]


class SharedSettings(BaseSettings):
    """Settings that server and worker share and that must be equal in both.

    Each is the environment variable AMPCORE_<NAME>. The description of a field says what is
    expected, for the message about an invalid value. A field that may contain a password has
    `repr=False`, and its validator raises a ValueError that does not quote the value.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, hide_input_in_errors=True, validate_default=True
    )

    data_dir: AbsolutePath = DEFAULT_DATA_DIR
    """The folder for all data on this machine."""
    database_url: DatabaseUrl = Field(repr=False)
    redis_url: RedisUrl = Field(repr=False)
    artifacts_url: ArtifactsUrl = Field(
        default_factory=lambda data: (data["data_dir"] / "artifacts").as_uri(), repr=False
    )
    """URL of the storage for files of jobs; default: the folder `artifacts` in the data folder."""
    data_prefixes: Annotated[tuple[ObjectUrl, ...], NoDecode, PlainValidator(_data_prefixes)] = ()
    """Prefixes of objects that jobs may name as data, such as s3://bucket/birds."""
    lease_s: float = Field(30.0, ge=0.5, le=3600, description="seconds from 0.5 to 3600")
    """A worker owns its job for this long after its last write or heartbeat."""
    drain_timeout_s: float = Field(
        DRAIN_TIMEOUT_S, ge=0, le=604_800, description="seconds from 0 to 604800"
    )
    """How long a worker that shuts down still stores the files of its jobs."""
    log_format: LogFormat = Field("json", description="text or json")

    @classmethod
    def from_environment(cls, **overrides: Any) -> Self:
        """Read the settings from the environment, but for `overrides`. Raises SettingsInvalid."""
        try:
            return cls(**overrides)
        except ValidationError as error:
            messages = [
                _message(cls, problem)
                for problem in error.errors(include_url=False)
                if problem["type"] != "default_factory_not_called"  # a consequence of another error
            ]
            raise SettingsInvalid("\n".join(messages)) from None

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Strip whitespace; an empty value counts as not set."""
        stripped = {
            name: value.strip() if isinstance(value, str) else value
            for name, value in values.items()
        }
        return {name: value for name, value in stripped.items() if value != ""}


def _message(settings: type[SharedSettings], error: Any) -> str:
    """One of pydantic's errors: the variable, what was expected, and what was received."""
    name, *_ = error["loc"]
    variable = f"{ENV_PREFIX}{name.upper()}"
    match error["type"]:
        case "missing":
            return f"{variable} is not set; a worker needs the same one as its server."
        case "value_error":
            return f"{variable}: {error['ctx']['error']}"
        case _:
            expected = settings.model_fields[name].description
            received = str(error["input"])[:MAX_RECEIVED]
            return f"{variable}: expected {expected}, received {received!r}."
