"""Requests to the API of Kubernetes: credentials, certificates, and answers that do not come."""

import base64
import datetime
import ssl

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from server.allocations.batch_system import BatchSystemUnavailable
from server.allocations.kubernetes_api import KubernetesApi
from server.allocations.kubernetes_credentials import CredentialsInvalid, find_cluster
from server.allocations.kubernetes_manifests import JOBS
from tests.kubernetes_api import NAMESPACE, TOKEN, Failure
from tests.kubernetes_cluster import fake_cluster, write_kubeconfig
from tests.waiting import DEADLINE_S

PLUGIN = """#!/bin/sh
echo run >> {folder}/runs
printf '{{"status": {{"token": "%s"}}}}' "$(cat {folder}/plugin-token)"
"""


@pytest.fixture
def api_with():
    """An API with a kubeconfig, which is closed at the end."""
    apis = []

    def connect(file, timeout_s=DEADLINE_S):
        apis.append(KubernetesApi(lambda: find_cluster(file), NAMESPACE, timeout_s))
        return apis[-1]

    yield connect
    for api in apis:
        api.close()


@pytest.fixture
def change_kubeconfig(cluster, tmp_path):
    """Writes a kubeconfig with other entries."""

    def write(*, cluster_entry=None, user=None, **values):
        file = write_kubeconfig(cluster, tmp_path)
        document = yaml.safe_load(file.read_text()) | values
        if cluster_entry is not None:
            document["clusters"][0]["cluster"] |= cluster_entry
        if user is not None:
            document["users"][0]["user"] = user
        file.write_text(yaml.safe_dump(document))
        return file

    return write


def certificate(folder, name, host="localhost"):
    """The paths of a certificate that signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    moment = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - datetime.timedelta(days=1))
        .not_valid_after(moment + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def in_base64(path):
    return base64.b64encode(path.read_bytes()).decode()


# Answers that do not come.


def test_a_server_that_refuses_connections_is_unavailable(api_with, cluster, tmp_path):
    api = api_with(write_kubeconfig(cluster, tmp_path))
    assert api.list_objects(JOBS) == []
    cluster.stop()
    with pytest.raises(BatchSystemUnavailable, match=cluster.url):
        api.list_objects(JOBS)
    cluster.start()
    assert api.list_objects(JOBS) == []


def test_an_answer_that_takes_too_long_is_not_waited_for(api_with, cluster, tmp_path):
    cluster.is_silent.set()
    api = api_with(write_kubeconfig(cluster, tmp_path), timeout_s=0.2)
    with pytest.raises(BatchSystemUnavailable, match=r"has not answered within 0\.2 s"):
        api.list_objects(JOBS)


def test_a_server_that_asks_to_wait_is_not_asked_again(api_with, cluster, tmp_path):
    api = api_with(write_kubeconfig(cluster, tmp_path))
    headers = {"Retry-After": "100"}
    cluster.failures = [Failure("GET", "jobs", 429, "TooManyRequests", "later", headers)]
    with pytest.raises(BatchSystemUnavailable, match="later"):
        api.list_objects(JOBS)
    with pytest.raises(BatchSystemUnavailable, match=r"asks to wait (99|100) s"):
        api.list_objects(JOBS)
    assert len(cluster.requests) == 1


def test_an_answer_of_something_else_is_not_believed(api_with, cluster, tmp_path):
    api = api_with(write_kubeconfig(cluster, tmp_path))
    cluster.failures = [Failure("GET", "jobs", 200, message="<html>Sign in</html>")]
    with pytest.raises(BatchSystemUnavailable, match="expected an answer of the Kubernetes API"):
        api.list_objects(JOBS)


# Credentials.


def test_a_token_that_is_replaced_is_read_again(api_with, cluster, tmp_path):
    api = api_with(write_kubeconfig(cluster, tmp_path))
    assert api.list_objects(JOBS) == []
    cluster.token = "the next token"
    with pytest.raises(BatchSystemUnavailable, match="does not accept the credentials"):
        api.list_objects(JOBS)
    (tmp_path / "token").write_text("the next token\n")
    assert api.list_objects(JOBS) == []
    (tmp_path / "token").unlink()
    with pytest.raises(BatchSystemUnavailable, match=f"{tmp_path}/token: No such file"):
        api.list_objects(JOBS)


def test_a_token_may_be_in_the_kubeconfig(api_with, change_kubeconfig):
    assert api_with(change_kubeconfig(user={"token": TOKEN})).list_objects(JOBS) == []


def test_a_plugin_prints_the_token_and_is_run_again_when_it_is_refused(
    api_with, change_kubeconfig, cluster, tmp_path
):
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(folder=tmp_path))
    plugin.chmod(0o755)
    (tmp_path / "plugin-token").write_text(TOKEN)
    version = "client.authentication.k8s.io/v1"
    api = api_with(
        change_kubeconfig(user={"exec": {"command": str(plugin), "apiVersion": version}})
    )
    for _ in range(2):
        assert api.list_objects(JOBS) == []
    cluster.token = "the next token"
    (tmp_path / "plugin-token").write_text("the next token")
    assert api.list_objects(JOBS) == []
    assert (tmp_path / "runs").read_text() == "run\nrun\n"
    plugin.write_text("#!/bin/sh\necho you must log in >&2; exit 1\n")
    cluster.token = "another token"
    with pytest.raises(BatchSystemUnavailable, match="plugin: you must log in"):
        api.list_objects(JOBS)


def test_a_pod_uses_its_service_account(tmp_path):
    account = tmp_path / "account"
    account.mkdir()
    certificate_file, key = certificate(tmp_path, "api")
    (account / "ca.crt").write_bytes(certificate_file.read_bytes())
    (account / "namespace").write_text(NAMESPACE)
    (account / "token").write_text(TOKEN)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate_file, key)
    with fake_cluster(tls) as cluster:
        host, _, port = cluster.url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        api = KubernetesApi(lambda: find_cluster(environ=environ, service_account=account))
        assert (api.namespace, api.list_objects(JOBS)) == (NAMESPACE, [])
        api.close()


def test_without_anything_the_default_kubeconfig_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CredentialsInvalid, match=f"{tmp_path}/.kube/config: No such file"):
        find_cluster(environ={})
    with pytest.raises(CredentialsInvalid, match="KUBECONFIG: expected one file, received 'a:b'"):
        find_cluster(environ={"KUBECONFIG": "a:b"})
    with pytest.raises(CredentialsInvalid, match="needs a service account with a token"):
        find_cluster(environ={"KUBERNETES_SERVICE_HOST": "x"}, service_account=tmp_path)


# Certificates.


def test_a_certificate_of_somebody_else_is_not_accepted(api_with, tmp_path):
    mine, key = certificate(tmp_path, "api")
    strange, _ = certificate(tmp_path, "strange")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(mine, key)
    with fake_cluster(tls) as cluster:
        file = write_kubeconfig(cluster, tmp_path)
        document = yaml.safe_load(file.read_text())
        api = api_with(file)
        document["clusters"][0]["cluster"]["certificate-authority"] = strange.name
        file.write_text(yaml.safe_dump(document))
        with pytest.raises(BatchSystemUnavailable, match=r"The certificate of .* is not"):
            api.list_objects(JOBS)
        # The file is read again for the next connection.
        strange.write_bytes(mine.read_bytes())
        assert api.list_objects(JOBS) == []


def test_a_client_certificate_says_who_asks(api_with, tmp_path):
    mine, key = certificate(tmp_path, "api")
    client, client_key = certificate(tmp_path, "client")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client)
    tls.load_cert_chain(mine, key)
    tls.verify_mode = ssl.CERT_REQUIRED
    with fake_cluster(tls) as cluster:
        file = write_kubeconfig(cluster, tmp_path)
        document = yaml.safe_load(file.read_text())
        document["clusters"][0]["cluster"]["certificate-authority-data"] = in_base64(mine)
        user = document["users"][0]["user"]
        user |= {"client-certificate-data": in_base64(client), "client-key": client_key.name}
        file.write_text(yaml.safe_dump(document))
        assert api_with(file).list_objects(JOBS) == []


# Mistakes in a kubeconfig.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-context": ""}, "current-context: expected the name of a context"),
        ({"contexts": []}, "contexts: expected an entry named 'test' with a context"),
        ({"users": [{"name": "other"}]}, "users: expected an entry named 'scheduler'"),
        ({"cluster_entry": {"server": "localhost"}}, "server: expected a URL"),
        ({"cluster_entry": {"certificate-authority": "missing"}}, "missing: No such file"),
        ({"cluster_entry": {"certificate-authority-data": "?"}}, "expected it in Base64"),
        ({"cluster_entry": {"certificate-authority-data": "YQ=="}}, "in PEM format"),
        ({"cluster_entry": {"tls-server-name": "x"}}, "tls-server-name: it is not supported"),
        ({"cluster_entry": {"proxy-url": "http://x"}}, "proxy-url: it is not supported"),
        ({"user": {"username": "a", "password": "b"}}, "username: it is not supported"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider: it is not supported"),
        ({"user": {"exec": {"args": ["a"]}}}, "exec: expected a command and an apiVersion"),
        ({"user": {"client-certificate-data": "YQ=="}}, "expected it together with client-key"),
        (
            {"user": {"client-certificate-data": "YQ==", "client-key-data": "YQ=="}},
            "expected a certificate and its key in PEM format",
        ),
    ],
)
def test_a_mistake_in_a_kubeconfig_is_named(change_kubeconfig, changes, message):
    file = change_kubeconfig(**changes)
    with pytest.raises(CredentialsInvalid) as caught:
        find_cluster(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["- a", "a: [", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path, text):
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(CredentialsInvalid, match="expected a kubeconfig in YAML"):
        find_cluster(file)
