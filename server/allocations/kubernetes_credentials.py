"""How the API of a Kubernetes cluster is reached: in a pod, or with a kubeconfig."""

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import yaml

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG: Final = Path("~/.kube/config")
PLUGIN_S: Final = 60.0
"""How long a program that prints a token may take."""
UNSUPPORTED: Final = ("auth-provider", "username", "as", "as-user-extra", "as-groups", "as-uid")
"""Ways to authenticate that kubectl has, and the scheduler has not."""
UNSUPPORTED_OF_CLUSTER: Final = ("tls-server-name", "proxy-url")


class CredentialsInvalid(Exception):
    """The API cannot be reached with what is configured; the message says where and why."""


@dataclass(frozen=True)
class Cluster:
    """How the API is reached.

    Args:
        server: Its URL.
        namespace: The namespace that is used if the settings name none.
        tls: Whom to trust, and the client's certificate if it has one.
        auth: Adds the token to each request; None: the certificate says who asks.
    """

    server: str
    namespace: str
    tls: ssl.SSLContext
    auth: httpx.Auth | None


class TokenFile(httpx.Auth):
    """The token in a file, which is read for each request: the kubelet replaces it each hour."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request."""
        try:
            token = self._file.read_text().strip()
        except OSError as error:
            raise CredentialsInvalid(f"{self._file}: {error.strerror}.") from None
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


class Token(httpx.Auth):
    """A token that a kubeconfig contains."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class PluginToken(httpx.Auth):
    """The token that a program prints, such as `aws eks get-token`; run again after a 401.

    Args:
        command: The program and its arguments.
        api_version: Of what it reads and prints.
        environ: All its variables.
        where: The kubeconfig, for messages.
    """

    def __init__(
        self, command: list[str], api_version: str, environ: Mapping[str, str], where: str
    ) -> None:
        self._command, self._where = command, where
        request = {"apiVersion": api_version, "kind": "ExecCredential"}
        request["spec"] = {"interactive": False}  # type: ignore[assignment]
        self._environ = {**environ, "KUBERNETES_EXEC_INFO": json.dumps(request)}
        self._token: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request, and a new one if it was refused."""
        is_new = self._token is None
        token = self._token = self._token or self._run()
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and not is_new:
            self._token = self._run()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _run(self) -> str:
        program = self._command[0]
        try:
            ended = subprocess.run(
                self._command, env=self._environ, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=PLUGIN_S, check=True,
            )  # fmt: skip
            return str(json.loads(ended.stdout)["status"]["token"])
        except subprocess.CalledProcessError as error:
            message = error.stderr.strip() or f"it has ended with {error.returncode}"
        except (OSError, subprocess.TimeoutExpired) as error:
            message = str(error)
        except (ValueError, LookupError, TypeError):
            message = "expected an ExecCredential with a token"
        raise CredentialsInvalid(f"{self._where}: {program}: {message}.")


def find_cluster(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Cluster:
    """How the API is reached: by a kubeconfig that is named, else as a pod, else as kubectl does.

    Args:
        kubeconfig: The file; None: none is named.
        context: The context of the file; None: its current one.
        environ: The variables of this process.
        service_account: Where Kubernetes mounts the token of a pod.

    Raises:
        CredentialsInvalid: Nothing is configured, or what is cannot be used.
    """
    if kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in environ:
        return _cluster_of_pod(service_account, environ)
    if kubeconfig is None:
        path = environ.get("KUBECONFIG", "")
        if os.pathsep in path:
            raise CredentialsInvalid(
                f"KUBECONFIG: expected one file, received {path!r}; name it as `kubeconfig` in the "
                "settings of the scheduler."
            )
        kubeconfig = Path(path) if path else DEFAULT_KUBECONFIG
    return _cluster_of_file(kubeconfig.expanduser(), context, environ)


def _cluster_of_pod(folder: Path, environ: Mapping[str, str]) -> Cluster:
    host = environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    server = f"https://{host}:{environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    try:
        namespace = (folder / "namespace").read_text().strip()
        tls = ssl.create_default_context(cafile=folder / "ca.crt")
    except OSError as error:
        raise CredentialsInvalid(
            f"{folder}: {error.strerror}. The scheduler's pod needs a service account with a token."
        ) from None
    return Cluster(server, namespace, tls, TokenFile(folder / "token"))


def _cluster_of_file(file: Path, context: str | None, environ: Mapping[str, str]) -> Cluster:
    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise CredentialsInvalid(f"{file}: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise CredentialsInvalid(f"{file}: expected a kubeconfig in YAML.") from None
    if not isinstance(document, dict):
        raise CredentialsInvalid(f"{file}: expected a kubeconfig in YAML.")
    return _Kubeconfig(file, document, environ).cluster(context)


class _Kubeconfig:
    """A kubeconfig; its messages name the file and the entry, and no values."""

    def __init__(self, file: Path, document: Any, environ: Mapping[str, str]) -> None:
        self._file, self._document, self._environ = file, document, environ

    def cluster(self, context_name: str | None) -> Cluster:
        name = context_name or self._document.get("current-context")
        if not name:
            raise self._invalid("current-context", "expected the name of a context, found none")
        context = self._entry("contexts", "context", name)
        cluster = self._entry("clusters", "cluster", context.get("cluster"))
        user = self._entry("users", "user", context.get("user")) if context.get("user") else {}
        server = str(cluster.get("server") or "")
        if urlsplit(server).scheme not in ("https", "http"):
            raise self._invalid("server", "expected a URL that begins with https://")
        tls = self._tls(cluster, user)
        return Cluster(server, context.get("namespace") or "default", tls, self._auth(user))

    def _entry(self, list_name: str, key: str, name: Any) -> dict[str, Any]:
        entries = self._document.get(list_name) or []
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                if isinstance(entry.get(key), dict):
                    return dict(entry[key])
                break
        raise self._invalid(list_name, f"expected an entry named {name!r} with a {key}")

    def _tls(self, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
        authority = self._data(cluster, "certificate-authority")
        try:
            tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        except (ssl.SSLError, ValueError):
            raise self._invalid(
                "certificate-authority", "expected certificates in PEM format"
            ) from None
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        for option in UNSUPPORTED_OF_CLUSTER:
            if cluster.get(option):
                raise self._invalid(f"clusters: {option}", "it is not supported")
        certificate = self._data(user, "client-certificate")
        key = self._data(user, "client-key")
        if (certificate is None) != (key is None):
            raise self._invalid("client-certificate", "expected it together with client-key")
        if certificate is not None and key is not None:
            self._load_certificate(tls, certificate, key)
        return tls

    def _load_certificate(self, tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        # The ssl module reads only files; this one is readable by this user alone, and ends here.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            try:
                tls.load_cert_chain(pair.name, password="")
            except (ssl.SSLError, ValueError):
                raise self._invalid(
                    "client-certificate", "expected a certificate and its key in PEM format"
                ) from None

    def _auth(self, user: dict[str, Any]) -> httpx.Auth | None:
        for key in UNSUPPORTED:
            if user.get(key):
                raise self._invalid(f"users: {key}", "it is not supported; use a token")
        if user.get("tokenFile"):
            return TokenFile(self._path(user["tokenFile"]))
        if user.get("token"):
            return Token(str(user["token"]))
        return self._plugin(user["exec"]) if user.get("exec") else None

    def _plugin(self, plugin: Any) -> PluginToken:
        try:
            variables = {entry["name"]: entry["value"] for entry in plugin.get("env") or []}
            command = [plugin["command"], *(plugin.get("args") or [])]
            api_version = plugin["apiVersion"]
        except (AttributeError, LookupError, TypeError):
            raise self._invalid("users: exec", "expected a command and an apiVersion") from None
        environ = {**self._environ, **variables}
        return PluginToken(command, api_version, environ, str(self._file))

    def _data(self, entry: dict[str, Any], key: str) -> bytes | None:
        """A file that an entry contains, or names."""
        if (text := entry.get(f"{key}-data")) is not None:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise self._invalid(f"{key}-data", "expected it in Base64") from None
        if (path := entry.get(key)) is None:
            return None
        try:
            return self._path(path).read_bytes()
        except OSError as error:
            raise self._invalid(key, f"{path}: {error.strerror}") from None

    def _path(self, path: str) -> Path:
        return self._file.parent / path

    def _invalid(self, where: str, message: str) -> CredentialsInvalid:
        return CredentialsInvalid(f"{self._file}: {where}: {message}.")
