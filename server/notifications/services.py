"""Send a message to a service or by e-mail, with apprise in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote

from ampspec.telemetry.json_values import storable_text
from infra.address_policy import AddressPolicy

PROGRAM: Final = (sys.executable, "-I", "-m", "server.child.send_message")
"""Isolated mode: neither environment variables nor the current folder select what is imported."""
TIMEOUT_S: Final = 60.0
MAX_ERROR: Final = 500
ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
"""All that the process sees of the environment: the server's own contains passwords."""
TOO_LATE: Final = f"The service did not answer within {TIMEOUT_S:g} s."


def send_to_service(
    url: str, title: str, text: str, policy: AddressPolicy, schemes: Collection[str]
) -> str | None:
    """Send a message to a service.

    Args:
        url: Its address, as apprise reads it.
        title: Of the message.
        text: Of the message.
        policy: The network addresses that are allowed.
        schemes: The services that are allowed.

    Returns:
        What went wrong; None if it was sent.
    """
    networks = [str(network) for network in policy.networks]
    return _run(url, title, text, networks, sorted(schemes))


def send_email(smtp_url: str, address: str, title: str, text: str) -> str | None:
    """Send an e-mail through the server of the operator, which may have any network address.

    Args:
        smtp_url: The server, as apprise reads it.
        address: To whom.
        title: Of the message.
        text: Of the message.

    Returns:
        What went wrong; None if it was sent.
    """
    separator = "&" if "?" in smtp_url else "?"
    url = f"{smtp_url}{separator}to={quote(address, safe='')}"
    return _run(url, title, text, None, None)


def address_error(url: str, schemes: Collection[str]) -> str | None:
    """What is wrong with the address of a service; None if apprise can read it."""
    return _run(url, None, None, [], sorted(schemes))


def _run(
    url: str,
    title: str | None,
    text: str | None,
    networks: list[str] | None,
    schemes: list[str] | None,
) -> str | None:
    request = {"url": url, "title": title, "text": text, "networks": networks, "schemes": schemes}
    environment = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    try:
        process = subprocess.run(
            PROGRAM,
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT | environment,
            cwd="/",
            start_new_session=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TOO_LATE
    return _error_in(process.stdout, process.returncode)


def _error_in(output: bytes, exit_code: int) -> str | None:
    try:
        document: Any = json.loads(output)
        error = document["error"]
    except (ValueError, KeyError, TypeError):
        return f"The process that sends messages failed with exit code {exit_code}."
    return None if error is None else storable_text(str(error))[:MAX_ERROR]
