"""`client.models` against the real API."""

import asyncio

import httpx
import pytest

from ampclient import AsyncClient, Client, Conflict, NotFound, PromotionRefused
from ampspec.references.model_reference import ModelReference
from tests.tables import every_row
from tests.trained_jobs import MODEL_BYTES, TrainedJobs
from tests.waiting import DEADLINE_S


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the client."""
    return sqlite_url


@pytest.fixture
def client(api):
    with Client(api.url, api.token, timeout_s=DEADLINE_S) as client:
        yield client


@pytest.fixture
def trained_job(api, make_job, tmp_path):
    return TrainedJobs(api, make_job, tmp_path / "files")


@pytest.fixture
def digits(client, trained_job):
    """Two versions; the first is the champion."""
    accuracies = [1.0] * 50 + [0.0] * 50
    versions = [
        client.models.register(trained_job(accuracies=accuracies), name="digits") for _ in range(2)
    ]
    client.models.set_alias("digits:1", "champion", reason="the first")
    return versions


@pytest.mark.quick
def test_a_version_is_found_by_alias_and_downloaded(client, digits, tmp_path):
    champion = client.models.get("digits@champion")
    assert (champion.reference, champion.aliases) == ("digits:1", ["champion"])
    saved = champion.download(tmp_path / "model")
    assert saved.name == "model.keras"
    assert saved.read_bytes() == MODEL_BYTES + champion.job_id.encode()
    assert client.models.download("digits@champion", to=tmp_path / "model") == saved
    assert client.models.get("digits").number == 2
    assert client.models.get("digits@latest") == client.models.get("digits:2")
    with pytest.raises(NotFound, match=r"train\.export of the job does not name onnx"):
        champion.download(tmp_path, format="onnx")
    with pytest.raises(NotFound, match="available as keras, safetensors"):
        champion.download(tmp_path, format="zip")


def test_a_broken_download_continues(api, digits, tmp_path, monkeypatch):
    monkeypatch.setattr("ampclient._http.retry.FIRST_DELAY_S", 0.0)

    class HalfAtFirst(httpx.BaseTransport):
        def __init__(self):
            self._real, self.ranges = httpx.HTTPTransport(), []

        def handle_request(self, request):
            answer = self._real.handle_request(request)
            if not request.url.path.endswith("/keras"):
                return answer
            self.ranges.append(request.headers.get("Range"))
            if len(self.ranges) > 1:
                return answer
            content = answer.read()
            answer.close()

            class Broken(httpx.SyncByteStream):
                def __iter__(self):
                    yield content[:1000]
                    raise httpx.ReadError("the connection broke")

            return httpx.Response(200, headers=answer.headers, stream=Broken())

        def close(self):
            self._real.close()

    transport = HalfAtFirst()
    with (
        httpx.Client(transport=transport, timeout=DEADLINE_S) as http_client,
        Client(api.url, api.token, http_client=http_client) as client,
    ):
        saved = client.models.download("digits:1", to=tmp_path)
        assert saved.read_bytes().startswith(MODEL_BYTES)
    assert transport.ranges == [None, "bytes=1000-"]


def test_promotions_notes_and_history(client, digits):
    with pytest.raises(PromotionRefused, match="Cannot tell") as caught:
        client.models.promote("digits:2", "champion", ["val_accuracy >= base"])
    assert caught.value.change.outcome == "undecided"
    change = client.models.promote(
        "digits", "champion", ["val_accuracy >= 0.5"], if_version=1, reason="weekly"
    )
    assert (change.to_number, change.checks[0].outcome) == (2, "passed")
    outcomes = [entry.outcome for entry in client.models.history("digits")]
    assert outcomes == ["promoted", "undecided", "set"]
    with pytest.raises(Conflict, match="expected version 1 to have it, but version 2"):
        client.models.set_alias("digits:1", "champion", if_version=1)
    model = client.models.update("digits", gates={"champion": ["val_accuracy >= 0.9"]}, note="x")
    assert (model.gates, model.note) == ({"champion": ["val_accuracy >= 0.9"]}, "x")
    with pytest.raises(Conflict, match="has a gate"):
        client.models.set_alias("digits:1", "champion")
    version = client.models.update_version("digits:1", tags={"team": "vision"})
    assert version.tags == {"team": "vision"}


def test_versions_are_deleted_and_restored(client, digits):
    with pytest.raises(ValueError, match="by its number"):
        client.models.delete("digits@champion")
    client.models.delete("digits:2")
    assert [version.number for version in client.models.versions("digits")] == [1]
    assert [version.number for version in client.models.versions("digits", deleted=True)] == [2]
    assert client.models.undelete("digits:2").number == 2
    assert client.models.remove_alias("digits", "champion").outcome == "removed"
    client.models.delete("digits")
    assert list(client.models.list()) == []


def test_the_async_client_has_the_same_operations(api, digits, tmp_path):
    async def run():
        async with AsyncClient(api.url, api.token, timeout_s=DEADLINE_S) as client:
            version = await client.models.get("digits@champion")
            card = await version.card()
            return await version.download(tmp_path), card, [m async for m in client.models.list()]

    saved, card, models = asyncio.run(run())
    assert saved.is_file()
    assert card.startswith("# digits:1\n")
    assert [model.aliases for model in models] == [{"champion": 1}]


def test_the_kinds_of_model_have_a_new_name(client):
    kinds = client.model_kinds()
    with pytest.warns(DeprecationWarning, match=r"client\.model_kinds"):
        assert client.models() == kinds


@every_row(
    ("text", "parts"),
    [
        ("digits", ("digits", None, None)),
        ("digits:3", ("digits", 3, None)),
        ("digits@champion", ("digits", None, "champion")),
        ("digits@latest", ("digits", None, None)),
    ],
)
def test_references_have_a_number_an_alias_or_neither(text, parts):
    reference = ModelReference.parse(text)
    assert (reference.name, reference.number, reference.alias) == parts


@every_row("text", ["", "Digits", "digits:0", "digits:champion", "digits@3", "a:1@b", "a/b"])
def test_a_malformed_reference_is_refused(text):
    with pytest.raises(ValueError, match="as in digits, digits:3 or digits@champion"):
        ModelReference.parse(text)
