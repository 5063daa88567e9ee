"""Signing in with the provider: how, where to, and back with a code."""

import logging
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from ampspec.api.people import SignInOptions, SignInProvider
from server.accounts.session_routes import end_sessions
from server.deps import AuthenticatorDep, DatabaseDep, SignOnDep
from server.documentation.openapi import problems
from server.errors import NotFound, TooManyRequests
from server.http.access.auth_middleware import client_network
from server.http.access.session_cookie import HOST_PREFIX, clear_cookie, set_person_cookie
from server.http.admission.middleware import without_slot
from server.http.router import API_PREFIX, api_router
from server.sign_on.errors import NoAccess, SignInFailed
from server.sign_on.page import failure_page
from server.sign_on.sign_on import Callback, SignOn
from store.access.person_sessions import Browser
from store.access.sign_ins import LIFETIME_S

log = logging.getLogger(__name__)

SIGN_IN_COOKIE: Final = "ampcore_sign_in"
RETURN_TO: Final = r"^/(api/v1/docs|#/[!-\[\]-~]{0,900})?$"
"""Pages of this server alone: a path that begins with `//` or `/\\` would be another host."""
MAX_PARAMETER: Final = 8192

router = api_router("/sign-in", tags=["access"])


@router.get(
    "", summary="Read how to sign in", openapi_extra={"security": []}, responses=problems(422)
)
async def options(sign_on: SignOnDep) -> SignInOptions:
    """Return the provider that people sign in with, if there is one besides tokens."""
    provider = None
    if sign_on is not None:
        provider = SignInProvider(name=sign_on.config.name, url=f"{API_PREFIX}/sign-in/start")
    return SignInOptions(provider=provider)


@router.get(
    "/start",
    summary="Sign in with the provider",
    status_code=303,
    response_class=Response,
    openapi_extra={"security": []},
    responses=problems(404, 422, 429),
)
async def start(
    request: Request,
    sign_on: SignOnDep,
    return_to: Annotated[
        str,
        Query(pattern=RETURN_TO, description="The page of this server to show afterwards."),
    ] = "/",
) -> Response:
    """Send a browser to the provider, which sends it back to `/sign-in/callback`."""
    sign_on = _limited(request, sign_on)
    try:
        async with without_slot(request.scope):
            begun = await sign_on.begin(return_to)
    except SignInFailed as error:
        return _failure(request, error)
    response = _redirect(begun.address)
    secure = sign_on.config.is_secure
    response.set_cookie(
        _cookie_name(sign_on),
        begun.cookie,
        max_age=int(LIFETIME_S),
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",  # the provider's page leads back
    )
    return response


# Providers send parameters of their own, which the other routes would refuse.
callback_router = APIRouter(prefix=f"{API_PREFIX}/sign-in", tags=["access"])


@callback_router.get(
    "/callback",
    summary="Finish a sign-in with the provider",
    status_code=303,
    response_class=Response,
    openapi_extra={"security": []},
    responses=problems(404, 422, 429),
)
async def callback(
    request: Request,
    sign_on: SignOnDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Open a session for the person whom the provider sends back with a code.

    If that fails, the response is a page that says why, with the status 400, 403 or 502.
    """
    sign_on = _limited(request, sign_on)
    received = Callback(
        *(
            _parameter(request, name)
            for name in ("state", "code", "error", "error_description", "iss")
        )
    )
    cookie = request.cookies.get(_cookie_name(sign_on), "")
    try:
        return_to = await sign_on.take(received, cookie)
        async with without_slot(request.scope):
            identity, grants = await sign_on.identify(received, cookie)
    except SignInFailed as error:
        if isinstance(error, NoAccess) and error.person_id is not None:
            authenticator.forget(error.person_id)
        return _failure(request, error, sign_on)
    browser = Browser(
        request.client.host[:64] if request.client else None,
        request.headers.get("user-agent", "")[:200] or None,
    )
    request_id = request.scope["state"].get("request_id")

    def open_session() -> tuple[str, str]:
        with database.write() as session:
            end_sessions(session, request)  # those that this browser had
        return sign_on.open_session(identity, grants, browser, request_id)

    person_id, secret = await anyio.to_thread.run_sync(open_session)
    authenticator.forget(person_id)
    response = _redirect(return_to)
    _forget_sign_in(response, sign_on)
    clear_cookie(response, secure=request.url.scheme == "https")
    config = sign_on.config
    set_person_cookie(
        response, secret, secure=config.is_secure, lifetime_s=config.lifetime.longest_s
    )
    return response


def _limited(request: Request, sign_on: SignOn | None) -> SignOn:
    """The service, unless the address begins too many sign-ins. Raises NotFound otherwise."""
    if sign_on is None:
        raise NotFound(
            "This server has no provider to sign in with; AMPCORE_OIDC_ISSUER names one."
        )
    try:
        sign_on.limit.hit(client_network(request.scope))
    except TooManyRequests:
        request.scope["state"]["unlogged"] = True
        raise
    return sign_on


def _failure(request: Request, error: SignInFailed, sign_on: SignOn | None = None) -> Response:
    log.warning("a sign-in failed: %s", error.log_message)
    response = failure_page(error, request.scope["state"].get("request_id"))
    if sign_on is not None:
        _forget_sign_in(response, sign_on)
    return response


def _redirect(address: str) -> RedirectResponse:
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return RedirectResponse(address, 303, headers=headers)


def _parameter(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:MAX_PARAMETER]


def _cookie_name(sign_on: SignOn) -> str:
    return f"{HOST_PREFIX if sign_on.config.is_secure else ''}{SIGN_IN_COOKIE}"


def _forget_sign_in(response: Response, sign_on: SignOn) -> None:
    response.delete_cookie(
        _cookie_name(sign_on),
        path="/",
        secure=sign_on.config.is_secure,
        httponly=True,
        samesite="lax",
    )
