"""A provider of OpenID Connect on 127.0.0.1, by authlib's server: real codes, PKCE and RSA keys.

Its answers can be changed, as a provider that is set up wrongly or an attacker would.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, Response, jsonify, request
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.waiting import DEADLINE_S, join

CLIENT_ID = "ampcore"
CLIENT_SECRET = "the+secret/of the client"
Claims = dict[str, Any]

SIGN_IN_PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Provider</title>
<h1>Sign in to the provider</h1><form method="post" action="{action}">{buttons}
<button name="user" value="">Cancel</button></form></html>"""


@dataclass
class User:
    """Somebody whom the provider knows."""

    sub: str
    claims: Claims


@dataclass
class Client:
    """The client that the provider knows, with the methods that authlib asks for."""

    redirect_uris: set[str] = field(default_factory=set)
    client_id: str = CLIENT_ID
    client_secret: str = CLIENT_SECRET
    methods: tuple[str, ...] = ("client_secret_basic", "client_secret_post")

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> None:
        return None

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.client_secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return endpoint != "token" or method in self.methods

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Code:
    """A code that the provider has given, and what it is worth."""

    code: str
    user: User
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str | None
    code_challenge_method: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> None:
        return None

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


def new_key() -> RSAKey:
    """A key as the provider signs with."""
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig", "alg": "RS256"})


@dataclass
class OidcProvider:
    """The provider, and what its answers say."""

    issuer: str
    keys: list[RSAKey] = field(default_factory=lambda: [new_key()])
    """It signs with the last one."""
    users: dict[str, User] = field(default_factory=dict)
    client: Client = field(default_factory=Client)
    codes: dict[str, Code] = field(default_factory=dict)
    access_tokens: dict[str, User] = field(default_factory=dict)
    metadata: Claims = field(default_factory=dict)
    """Replaces parts of its description."""
    change_claims: Callable[[Claims], None] = lambda claims: None
    """Changes the claims of an ID token before it is signed."""
    change_token: Callable[[str], str] = lambda text: text
    """Replaces a signed ID token."""
    user_info: Callable[[User], Claims] | None = None
    requests: list[str] = field(default_factory=list)
    """The paths that were requested."""

    def add_user(self, name: str, *groups: str, **claims: Any) -> User:
        """Add somebody who is in these groups."""
        email = f"{name}@example.com"
        facts = {"name": name.title(), "email": email, "email_verified": True, "groups": groups}
        self.users[name] = User(f"sub of {name}", {**facts, **claims})
        return self.users[name]

    def rotate(self) -> None:
        """Sign with a new key; the one before is no longer listed."""
        self.keys = [new_key()]

    def sign(self, claims: Claims, key: Any = None, **header: Any) -> str:
        """A token as the provider signs it, or with another key."""
        key = key or self.keys[-1]
        return jwt.encode({"alg": "RS256", "kid": self.keys[-1].kid, **header}, claims, key)

    def answer(self, address: str, user: str) -> str:
        """What a person does on the sign-in page: returns where the provider leads back to."""
        with httpx.Client(timeout=DEADLINE_S) as client:
            assert client.get(address).status_code == 200
            response = client.post(address, data={"user": user})
        assert response.status_code == 302, response.text
        return response.headers["Location"]

    def document(self) -> Claims:
        """Its description, as at /.well-known/openid-configuration."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": list(self.client.methods),
            **self.metadata,
        }


def state_of(address: str) -> str:
    """The state in an address that leads to the provider or back."""
    return parse_qs(urlsplit(address).query)["state"][0]


def _authorization_server(provider: OidcProvider, app: Flask) -> AuthorizationServer:
    def save_token(token: Claims, token_request: Any) -> None:
        provider.access_tokens[token["access_token"]] = token_request.user

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post", "none")

        def save_authorization_code(self, code: str, authorization: Any) -> None:
            sent = authorization.payload.data
            provider.codes[code] = Code(
                code,
                authorization.user,
                authorization.payload.redirect_uri,
                authorization.payload.scope,
                *(sent.get(name) for name in ("nonce", "code_challenge", "code_challenge_method")),
            )

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code: Code) -> None:
            del provider.codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Code) -> User:
            return authorization_code.user

    class IdTokens(OpenIDCode):
        def exists_nonce(self, nonce: str, token_request: Any) -> bool:
            return False

        def encode_id_token(self, token: Claims, token_request: Any) -> str:
            user, moment = token_request.user, int(time.time())
            claims = {
                "iss": provider.issuer,
                "aud": provider.client.client_id,
                "sub": user.sub,
                "iat": moment,
                "exp": moment + 300,
                **self.get_authorization_code_claims(token_request.authorization_code),
                **user.claims,
            }
            provider.change_claims(claims)
            return provider.change_token(provider.sign(claims))

    server = AuthorizationServer(app, lambda client_id: _client(provider, client_id), save_token)
    server.register_grant(CodeGrant, [CodeChallenge(required=True), IdTokens(require_nonce=True)])
    return server


def _client(provider: OidcProvider, client_id: str) -> Client | None:
    return provider.client if client_id == provider.client.client_id else None


def _application(provider: OidcProvider) -> Flask:
    app = Flask("oidc provider")
    server = _authorization_server(provider, app)

    @app.before_request
    def record() -> None:
        provider.requests.append(request.path)

    @app.get("/.well-known/openid-configuration")
    def metadata() -> Response:
        return jsonify(provider.document())

    @app.get("/jwks")
    def jwks() -> Response:
        return jsonify(KeySet(provider.keys).as_dict(private=False))

    @app.get("/authorize")
    def ask() -> str:
        server.get_consent_grant(end_user=None)
        buttons = "".join(
            f'<button name="user" value="{escape(name)}">Sign in as {escape(name)}</button>'
            for name in provider.users
        )
        return SIGN_IN_PAGE.format(action=escape(request.full_path), buttons=buttons)

    @app.post("/authorize")
    def authorize() -> Response:
        user = provider.users.get(request.form["user"])
        grant = server.get_consent_grant(end_user=user)
        return server.create_authorization_response(grant=grant, grant_user=user)

    @app.post("/token")
    def token() -> Response:
        return server.create_token_response()

    @app.get("/userinfo")
    def userinfo() -> Any:
        secret = request.headers.get("Authorization", "").removeprefix("Bearer ")
        user = provider.access_tokens[secret]
        facts = provider.user_info(user) if provider.user_info else user.claims
        return jsonify({"sub": user.sub, **facts})

    return app


class _QuietHandler(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


@contextmanager
def oidc_provider(port: int = 0) -> Iterator[OidcProvider]:
    """Run a provider on 127.0.0.1."""
    provider = OidcProvider("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
        app = _application(provider)
        server = make_server("127.0.0.1", port, app, threaded=True, request_handler=_QuietHandler)
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            join(thread)
            server.server_close()
