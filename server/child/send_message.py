"""`python -m server.child.send_message`: send one message with apprise, or check its address.

Reads a JSON document from standard input, so that no other process sees the address, and prints a
JSON document. This process ends after the message: it has the memory that apprise takes, and a
service that hangs ends with it. Every connection is checked when it is made, whatever library makes
it: a name that resolves to another address later, or a redirect, leads nowhere else.
"""

import json
import logging
import resource
import sys
from contextlib import redirect_stdout
from ipaddress import ip_network
from typing import Any, Final

from infra.address_policy import AddressPolicy, AddressRefused

MEMORY_BYTES: Final = 2 * 2**30
MAX_LOG: Final = 500
CONNECTS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})


class _LastWarning(logging.Handler):
    """Keeps the last warning of apprise: its only report of why a message was not sent."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()[:MAX_LOG]


def main() -> None:
    """Read the request, send the message, print the result."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    request = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        error = _send(request)
    sys.stdout.write(json.dumps({"error": error}))


def _send(request: dict[str, Any]) -> str | None:
    """Send the message of a request.

    Args:
        request: `url`; `schemes`, of which one must be that of the address, or None; `title` and
            `text`, or null to check the address alone; `networks`, or null to check no connection.

    Returns:
        What went wrong; None if it was sent.
    """
    import apprise

    warnings = _LastWarning()
    logging.getLogger("apprise").addHandler(warnings)
    asset = apprise.AppriseAsset(http_redirects=False, storage_mode="memory")
    service = apprise.Apprise.instantiate(request["url"], asset=asset, suppress_exceptions=True)
    if service is None:
        return f"Expected a complete address of the service. {warnings.text}".strip()
    allowed = request["schemes"]
    if allowed is not None and _schemes_of(service).isdisjoint(allowed):
        return "Expected the address of a service that the server allows."
    if request["text"] is None:
        return None
    refused: list[str] = []
    if request["networks"] is not None:
        _check_connections(AddressPolicy(tuple(map(ip_network, request["networks"]))), refused)
    sent = service.notify(body=request["text"], title=request["title"])
    if sent:
        return None
    if refused:
        return refused[0]
    return warnings.text or "The service did not accept the message."


def _schemes_of(service: Any) -> set[str]:
    """The schemes of a plugin of apprise, which has none, one or several of each kind."""
    kinds = (service.protocol, service.secure_protocol)
    return {
        name for names in kinds for name in ((names,) if isinstance(names, str) else names or ())
    }


def _check_connections(policy: AddressPolicy, refused: list[str]) -> None:
    """Refuse every connection of this process to an address that the policy does not allow."""

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CONNECTS:
            return
        address = arguments[1]
        if isinstance(address, tuple):
            try:
                policy.check(str(address[0]))
            except AddressRefused as error:
                refused.append(str(error))
                raise

    sys.addaudithook(check)


if __name__ == "__main__":
    main()
