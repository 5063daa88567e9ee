"""A real S3 server on this machine, for the tests that need one."""

import secrets
from collections.abc import Iterator

import httpx
import pytest

from tests.waiting import DEADLINE_S


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server that has a bucket."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    httpx.put(f"{url}/bucket", timeout=DEADLINE_S).raise_for_status()
    yield url
    server.stop()


@pytest.fixture
def s3_url(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty folder in the bucket; the AWS variables are set for it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    return f"s3://bucket/{secrets.token_hex(4)}/folder"
