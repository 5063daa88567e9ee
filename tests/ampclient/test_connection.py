import json
from pathlib import Path

import pytest

from ampclient import Client, NotConfigured
from ampclient.connection import Connection, login_path, resolve
from tests.tables import every_row

FILE_TOKEN = "from-file"


def write(path: Path, url: str = "http://127.0.0.1:8000", token: str = FILE_TOKEN) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"url": url, "token": token}))
    return path


def test_arguments_take_precedence_over_the_environment(tmp_path):
    environ = {"AMPCORE_URL": "http://env:1", "AMPCORE_TOKEN": "from-env"}
    assert resolve("http://arg:1", "from-arg", environ) == Connection("http://arg:1", "from-arg")


def test_the_environment_takes_precedence_over_the_file(tmp_path):
    file = write(tmp_path / "connection.json")
    environ = {
        "AMPCORE_URL": "http://env:1",
        "AMPCORE_TOKEN": "from-env",
        "AMPCORE_CONNECTION": str(file),
    }
    assert resolve(None, None, environ) == Connection("http://env:1", "from-env")


def test_the_environment_selects_the_connection_file(tmp_path):
    explicit = write(tmp_path / "named.json", token="named")
    write(tmp_path / "data" / "connection.json", token="data-dir")
    environ = {"AMPCORE_CONNECTION": str(explicit), "AMPCORE_DATA_DIR": str(tmp_path / "data")}
    assert resolve(None, None, environ).token == "named"
    del environ["AMPCORE_CONNECTION"]
    assert resolve(None, None, environ).token == "data-dir"


def test_the_connection_file_of_ampserver_up_is_the_default(tmp_path, monkeypatch):
    for name in ("URL", "TOKEN", "CONNECTION", "DATA_DIR"):
        monkeypatch.delenv(f"AMPCORE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ampcore-data" / "connection.json", url="http://127.0.0.1:4321")
    assert Client().url == "http://127.0.0.1:4321"


def test_a_missing_configuration_is_an_error_that_names_the_options(tmp_path):
    with pytest.raises(NotConfigured, match=r"AMPCORE_URL and AMPCORE_TOKEN.*`ampserver up`"):
        resolve(None, None, {"AMPCORE_DATA_DIR": str(tmp_path)})


def test_the_token_of_the_file_is_not_sent_to_another_server(tmp_path):
    environ = {"AMPCORE_CONNECTION": str(write(tmp_path / "connection.json"))}
    assert resolve("http://127.0.0.1:8000/", None, environ).token == "from-file"
    with pytest.raises(NotConfigured, match="AMPCORE_TOKEN"):
        resolve("http://elsewhere:8000", None, environ)


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://host:1/", "http://host:1"),
        ("https://host/prefix/", "https://host/prefix"),
        ("http://host:1/api/v1", "http://host:1"),
    ],
)
def test_a_trailing_slash_and_the_api_prefix_are_removed_from_the_url(url, normal):
    assert Connection(url, "token").url == normal


@every_row("url", ["host:8000", "ftp://host", "http://", ""])
def test_an_invalid_url_is_refused(url):
    with pytest.raises(NotConfigured, match=r"such as http://127\.0\.0\.1:8470"):
        Connection(url, "token")


@every_row("token", ["", " \n", "a\nb", "naïve"])
def test_a_token_that_is_no_valid_header_value_is_refused(token):
    with pytest.raises(NotConfigured, match="token"):
        Connection("http://host", token)


@every_row("text", ["", "[]", '{"url": "http://host"}', "\x00"])
def test_an_invalid_connection_file_is_named_in_the_error(tmp_path, text):
    path = tmp_path / "connection.json"
    path.write_text(text)
    with pytest.raises(NotConfigured, match=r"connection\.json"):
        Connection.from_file(path)


def test_a_missing_connection_file_is_named_in_the_error(tmp_path):
    with pytest.raises(NotConfigured, match="No such file"):
        Client.from_file(tmp_path / "connection.json")


def test_the_token_is_not_printed():
    assert "secret" not in repr(Connection("http://host", "secret"))
    assert "secret" not in repr(Client("http://host", "secret"))


@every_row(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://127.example.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_loopback_addresses_are_recognized(url, loopback):
    assert Connection(url, "token").is_loopback is loopback


@pytest.fixture
def logged_in(tmp_path):
    """An environment with a login and nothing else."""
    write(tmp_path / "config/ampcore/login.json", url="http://login:1", token="of-login")
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "AMPCORE_DATA_DIR": str(tmp_path)}


def test_the_login_has_the_lowest_precedence(tmp_path, logged_in):
    connection = resolve(None, None, logged_in)
    assert (connection.url, connection.token) == ("http://login:1", "of-login")
    assert (
        connection.url_from
        == connection.token_from
        == f"the login {tmp_path}/config/ampcore/login.json"
    )
    write(tmp_path / "connection.json")
    assert resolve(None, None, logged_in).token == FILE_TOKEN
    assert resolve("http://login:1/", None, logged_in).token == "of-login"


def test_the_login_is_not_used_if_the_named_connection_file_is_missing(tmp_path, logged_in):
    with pytest.raises(NotConfigured, match=r"nothing\.json"):
        resolve(None, None, {**logged_in, "AMPCORE_CONNECTION": str(tmp_path / "nothing.json")})


def test_the_token_of_the_login_is_not_sent_to_another_server(logged_in):
    with pytest.raises(NotConfigured, match=r"the login .* is for http://login:1"):
        resolve("http://elsewhere:1", None, logged_in)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/home/anna"}, "/x/ampcore/login.json"),
        ({"XDG_CONFIG_HOME": "x", "HOME": "/home/anna"}, "/home/anna/.config/ampcore/login.json"),
        ({"HOME": "/home/anna"}, "/home/anna/.config/ampcore/login.json"),
    ],
)
def test_the_login_file_is_in_the_config_folder_of_the_user(environ, path):
    assert login_path(environ) == Path(path)
    assert login_path({}) is None
