"""Fixtures: a provider, and a server whose people sign in with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.sign_on.group_grants import read_groups
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, oidc_provider
from tests.waiting import DEADLINE_S

GROUPS = (
    '{"ml-admins": "admin", "vision": "vision:member", "vision leads": '
    '"vision:member+project:admin+jobs:run-code", "readers": ["vision:viewer", "audio:viewer"]}'
)


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind of database is enough: tests/store has the queries on both."""
    return sqlite_url


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    """A provider with people of several groups."""
    with oidc_provider() as provider:
        provider.add_user("ann", "vision", "staff")
        provider.add_user("root", "ml-admins")
        provider.add_user("lee", "vision leads")
        provider.add_user("rae", "readers")
        provider.add_user("eve", "staff", "kitchen")
        yield provider


@dataclass
class Browser:
    """A browser with its own cookies, which follows no redirect by itself."""

    server: Any
    provider: OidcProvider
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.server.url, timeout=DEADLINE_S)

    def start(self, return_to: str = "/") -> str:
        """Begin to sign in; returns the address at the provider."""
        answer = self.client.get("/api/v1/sign-in/start", params={"return_to": return_to})
        assert answer.status_code == 303, answer.text
        return answer.headers["Location"]

    def come_back(self, address: str) -> httpx.Response:
        """Follow the provider's redirect."""
        assert address.startswith(f"{self.server.url}/api/v1/sign-in/callback?")
        return self.client.get(address)

    def sign_in(self, user: str, return_to: str = "/") -> httpx.Response:
        """Sign in as a user of the provider; returns the server's last response."""
        return self.come_back(self.provider.answer(self.start(return_to), user))

    def change(self, method: str, path: str, origin: str | None = "", **body: Any) -> Any:
        """Send a request as the dashboard does: with the server's own Origin, or another one."""
        origin = self.server.url if origin == "" else origin
        headers = {} if origin is None else {"Origin": origin}
        return self.client.request(method, f"/api/v1{path}", headers=headers, **body)


@pytest.fixture
def settings(provider: OidcProvider, test_server: Any) -> dict[str, Any]:
    """The settings of the provider; a test may change them before it asks for `server`."""
    provider.client.redirect_uris = {f"{test_server.url}/api/v1/sign-in/callback"}
    return {
        "public_url": test_server.url,
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_name": "Example",
        "oidc_groups": read_groups(GROUPS),
    }


@pytest.fixture
def new_server(
    *, test_server: Any, database: Any, database_url: str, engines: Any, tmp_path: Path
) -> Callable[..., Any]:
    """Starts the server with other settings."""
    from server.app import create_app
    from server.settings import Settings
    from server.studies.planner import DirectPlanner
    from store.database import Database

    def start(**settings: Any) -> Any:
        test_server.app = create_app(
            Settings(
                database_url=database_url,
                redis_url="redis://127.0.0.1:1/0",
                data_dir=tmp_path / "data",
                **settings,
            ),
            reconcile=False,
            database=Database(database_url, engine=engines.of_app(database_url)),
            new_planner=DirectPlanner,
        )
        test_server.app.state.database = database
        return test_server

    return start


@pytest.fixture
def server(new_server: Callable[..., Any], settings: dict[str, Any]) -> Any:
    """The server."""
    return new_server(**settings)


@pytest.fixture
def new_browser(server: Any, provider: OidcProvider) -> Iterator[Callable[[], Browser]]:
    """Opens browsers."""
    browsers: list[Browser] = []

    def start() -> Browser:
        browsers.append(Browser(server, provider))
        return browsers[-1]

    yield start
    for browser in browsers:
        browser.client.close()


@pytest.fixture
def browser(new_browser: Callable[[], Browser]) -> Browser:
    """One browser."""
    return new_browser()
