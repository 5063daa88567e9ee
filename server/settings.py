"""The server's settings, read from the environment once."""

import re
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_settings import NoDecode

from ampspec.api.roles import Grant
from infra.defaults import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_REDIS_URL, sqlite_url
from infra.settings import DatabaseUrl, RedisUrl, SharedSettings
from server.sign_on.group_grants import read_groups

DEFAULT_OIDC_SCOPES: Final = "openid profile email"
DEFAULT_RATE_LIMIT: Final = "60000/minute"
DEFAULT_TRUSTED_PROXIES: Final = "127.0.0.0/8,::1"
DEFAULT_MAX_DATASET_BYTES: Final = 100 * 2**30
DAY_S: Final = 86_400.0
NO_PROXY: Final = "none"
RATE: Final = r"^(off|[1-9][0-9]{0,8}/(second|minute|hour|day))$"

SCHEME: Final = re.compile(r"[a-z][a-z0-9]{0,19}")
SMTP_SCHEMES: Final = ("mailto", "mailtos")

Networks = tuple[IPv4Network | IPv6Network, ...]


def _networks(value: Any) -> Any:
    """The addresses and networks in a comma-separated list."""
    if not isinstance(value, str):
        return value
    if value == NO_PROXY:
        return ()
    try:
        return tuple(ip_network(part.strip()) for part in value.split(","))
    except ValueError as error:
        raise ValueError(
            "expected none, or comma-separated addresses and networks as in "
            f"{DEFAULT_TRUSTED_PROXIES}, received {value[:80]!r}: {error}."
        ) from None


def _schemes(value: Any) -> Any:
    """The schemes in a comma-separated list."""
    if not isinstance(value, str):
        return value
    names = [] if value == NO_PROXY else [part.strip().lower() for part in value.split(",")]
    if not all(map(SCHEME.fullmatch, names)):
        raise ValueError(
            f"expected none, or comma-separated schemes as in http,json, received {value[:80]!r}."
        )
    return frozenset(names)


def _check_smtp_url(text: str) -> str:
    try:
        address = urlsplit(text)
        is_valid = address.scheme in SMTP_SCHEMES and bool(address.hostname)
        _ = address.port
    except ValueError:
        is_valid = False
    if not is_valid or "to=" in text:
        raise ValueError(
            "expected an address such as mailtos://user:password@smtp.example.com:587"
            "?from=ampcore@example.com, without a recipient; received something else."
        )
    return text


def _check_public_url(text: str) -> str:
    address = urlsplit(text)
    if address.scheme not in ("http", "https") or not address.netloc or "@" in address.netloc:
        raise ValueError(
            f"expected an address such as https://ampcore.example.com, received {text[:80]!r}."
        )
    return text.rstrip("/")


def _secret_in_file(value: Any) -> Any:
    """The content of the file with a secret."""
    try:
        secret = Path(value).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a file that the server can read: {error}.") from None
    if not secret:
        raise ValueError("expected a file with a secret, received an empty one.")
    return secret


def _names(value: Any) -> Any:
    """The names in a comma-separated list."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _domains(value: Any) -> Any:
    """The domains in a comma-separated list, in lower case."""
    return frozenset(name.lower().removeprefix("@") for name in _names(value))


def _check_scopes(text: str) -> str:
    if "openid" not in text.split():
        raise ValueError(
            f"expected scopes with openid, as in {DEFAULT_OIDC_SCOPES!r}, received {text[:80]!r}."
        )
    return " ".join(text.split())


def _check_issuer(text: str, info: ValidationInfo) -> str:
    """Check the address of the provider, and that nothing is missing that it needs."""
    address = urlsplit(text)
    is_local = address.hostname in ("localhost", "127.0.0.1", "::1")
    is_safe = address.scheme == "https" or (is_local and address.scheme == "http")
    if "@" in text:
        raise ValueError("expected the provider's address without a password in it.")
    if not is_safe or not address.netloc:
        raise ValueError(
            "expected the provider's address such as https://login.example.com/realms/team, "
            f"received {text[:80]!r}."
        )
    values = info.data
    required = {
        "public_url": "AMPCORE_PUBLIC_URL",
        "oidc_client_id": "AMPCORE_OIDC_CLIENT_ID",
        "oidc_groups": "AMPCORE_OIDC_GROUPS",
    }
    missing = [name for field, name in required.items() if not values.get(field, "invalid")]
    if missing:
        raise ValueError(f"a provider also needs {' and '.join(missing)}.")
    if values.get("oidc_client_secret") and values.get("oidc_client_secret_file"):
        raise ValueError(
            "expected AMPCORE_OIDC_CLIENT_SECRET or AMPCORE_OIDC_CLIENT_SECRET_FILE, received both."
        )
    if find_spec("authlib") is None:
        raise ValueError("sign-on needs the package authlib: pip install 'ampcore[oidc]'.")
    return text


class Settings(SharedSettings):
    """The server's settings."""

    database_url: DatabaseUrl = Field(
        default_factory=lambda data: sqlite_url(data["data_dir"]), repr=False
    )
    redis_url: RedisUrl = Field(DEFAULT_REDIS_URL, repr=False)
    host: str = DEFAULT_HOST
    port: int = Field(DEFAULT_PORT, ge=0, le=65_535, description="a number from 0 to 65535")
    rate_limit: str = Field(
        DEFAULT_RATE_LIMIT,
        pattern=RATE,
        description=f"off, or a rate such as {DEFAULT_RATE_LIMIT}",
    )
    """Maximum rate of requests per token, such as 60000/minute; or off."""
    trusted_proxies: Annotated[Networks, NoDecode, BeforeValidator(_networks)] = Field(
        default_factory=lambda: _networks(DEFAULT_TRUSTED_PROXIES)
    )
    """Proxies whose X-Forwarded-For and X-Forwarded-Proto headers are used."""

    max_dataset_bytes: int = Field(
        DEFAULT_MAX_DATASET_BYTES, ge=1, le=2**53, description=f"a number from 1 to {2**53}"
    )
    """Maximum size of one uploaded file of a dataset."""

    trash_s: float = Field(
        DAY_S, ge=0, le=365 * DAY_S, description="a number of seconds from 0 to 31536000"
    )
    """How long a deleted job can be restored; 0: it is deleted at once."""

    scheduler: str | None = None
    """The batch system that gives the jobs of some queues their devices, such as slurm."""
    scheduler_config: Path | None = None
    """The file with these queues."""

    public_url: Annotated[str, AfterValidator(_check_public_url)] | None = None
    """The address at which people reach the server: the start of links in notifications."""
    notify_networks: Annotated[Networks, NoDecode, BeforeValidator(_networks)] = ()
    """Private networks that notifications may be sent to."""
    notify_schemes: Annotated[frozenset[str], NoDecode, BeforeValidator(_schemes)] = frozenset()
    """Schemes that addresses of notifications may have besides the usual ones."""
    smtp_url: Annotated[str, AfterValidator(_check_smtp_url)] | None = Field(None, repr=False)
    """The server that sends notifications by e-mail."""

    oidc_client_id: str | None = None
    """The name of this server at the provider that people sign in with."""
    oidc_client_secret: str | None = Field(None, repr=False)
    oidc_client_secret_file: Annotated[str, BeforeValidator(_secret_in_file)] | None = Field(
        None, repr=False
    )
    """The file with the secret, of which this is the content."""
    oidc_name: str = Field(
        "single sign-on", max_length=60, description="a name of up to 60 characters"
    )
    """What the button of the sign-in page calls the provider."""
    oidc_scopes: Annotated[str, AfterValidator(_check_scopes)] = DEFAULT_OIDC_SCOPES
    oidc_groups_claim: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = ("groups",)
    """The claims with the groups of a person."""
    oidc_groups: Annotated[dict[str, tuple[Grant, ...]], NoDecode, BeforeValidator(read_groups)] = (
        Field(default_factory=dict)
    )
    """What the people of each group may do."""
    oidc_email_domains: Annotated[frozenset[str], NoDecode, BeforeValidator(_domains)] = frozenset()
    """Domains of verified e-mail addresses; empty: any."""
    oidc_session_s: float = Field(
        DAY_S / 2, ge=300, le=30 * DAY_S, description="a number of seconds from 300 to 2592000"
    )
    """How long a person stays signed in."""
    oidc_idle_s: float = Field(
        DAY_S / 12, ge=120, le=30 * DAY_S, description="a number of seconds from 120 to 2592000"
    )
    """How long a person stays signed in without a request."""
    oidc_token_s: float = Field(
        30 * DAY_S, ge=300, le=366 * DAY_S, description="a number of seconds from 300 to 31622400"
    )
    """How long tokens of a person are valid after its last sign-in."""
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = None
    """The provider; the last field, since it is checked with those before."""

    @property
    def uploads_dir(self) -> Path:
        """Where request bodies of uploads are written before they go to the storage."""
        return self.data_dir / "uploads"

    @property
    def has_remote_proxies(self) -> bool:
        """Whether a trusted proxy may be on another machine."""
        return any(not network.is_loopback for network in self.trusted_proxies)

    @property
    def datasets_dir(self) -> Path:
        """The folder that a job's `data.path` is relative to and cannot leave."""
        return self.data_dir / "datasets"
