"""The page for a person whose sign-in has failed: what happened, and what to do."""

import hashlib
from base64 import b64encode
from html import escape
from typing import Final

from fastapi.responses import HTMLResponse

from server.sign_on.errors import NoAccess, SignInFailed

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }
:root { color-scheme: light dark }
"""
STYLE_HASH: Final = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def failure_page(error: SignInFailed, request_id: str | None) -> HTMLResponse:
    """The page for an error, with the groups that the provider has named."""
    groups = error.groups if isinstance(error, NoAccess) else ()
    items = "".join(f"<li><code>{escape(group)}</code>" for group in groups)
    listed = f"<ul>{items}</ul>" if groups else ""
    number = f"<p><small>Request {escape(request_id)}</small>" if request_id else ""
    return HTMLResponse(
        f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Not signed in: ampcore</title>
<style>{STYLE}</style>
<main>
<h1>You are not signed in</h1>
<p>{escape(str(error))}
{listed}
<p><a href="/">Go to the sign-in page</a>
{number}
</main>
</html>
""",
        error.status,
        headers=HEADERS,
    )
