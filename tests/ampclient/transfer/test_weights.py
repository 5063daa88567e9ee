"""Weights that the client sends for a job to start from, against the real API."""

import hashlib

import httpx
import keras
import ml_dtypes
import numpy as np
import pytest

from ampclient import Client, InvalidSpec
from ampclient._transfer.weights import weights_source
from ampclient.cli import main
from ampcore.checkpoint.tensors import encode_tensors, open_tensors
from tests.waiting import DEADLINE_S

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
ARRAYS = {
    "dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "dense/bias": np.ones(3, ml_dtypes.bfloat16),
    "count": np.int64(7),
}


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the client."""
    return sqlite_url


@pytest.fixture
def client(api):
    with httpx.Client(timeout=DEADLINE_S) as http_client:
        yield Client(api.url, api.token, http_client=http_client)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "trained.safetensors"
    file.write_bytes(encode_tensors({"dense/bias": np.zeros(3, np.float32)}, {}))
    return file


def reference(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def model():
    return keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10, name="logits")]
    )


def downloaded(client, job, tmp_path):
    """The arrays that a job starts from."""
    path = client.files.download(job.spec["init"]["weights"], kind="weights", to=tmp_path)
    with open_tensors(path) as tensors:
        return {name: tensors.read(name) for name in tensors.entries}


def test_arrays_by_name_become_a_safetensors_file(tmp_path):
    source = weights_source(ARRAYS)
    file = tmp_path / "arrays"
    file.write_bytes(b"".join(source.read(0, source.size_bytes)))
    with open_tensors(file) as tensors:
        for name, array in ARRAYS.items():
            read = tensors.read(name)
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(read, array)
    with pytest.raises(ValueError, match="expected arrays of numbers, received x"):
        weights_source({"x": np.array(["a"])})


def test_a_job_starts_from_a_file_that_is_uploaded_once(client, file):
    init = {"freeze": ["^dense"]}
    for weights in (file, str(file), file.read_bytes()):
        job = client.jobs.submit(SPEC, init=init, weights=weights)
        assert job.spec["init"]["weights"] == reference(file.read_bytes())
        assert job.spec["init"]["freeze"] == ["^dense"]
    assert client.files.upload_weights(file).reference == reference(file.read_bytes())


def test_a_keras_model_is_sent_with_its_weights(client, tmp_path):
    local = model()
    job = client.jobs.submit(model=local, data=SPEC["data"])
    tensors = downloaded(client, job, tmp_path)
    np.testing.assert_array_equal(tensors["logits/kernel"], local.get_layer("logits").kernel)
    assert client.jobs.validate(model=local, data=SPEC["data"]).spec["init"] == job.spec["init"]


def test_the_weights_of_a_keras_model_are_left_out_on_request_or_for_others(client, file):
    assert "init" not in client.jobs.submit(model=model(), data=SPEC["data"], weights=False).spec
    job = client.jobs.submit(model=model(), data=SPEC["data"], weights=file)
    assert job.spec["init"]["weights"] == reference(file.read_bytes())
    resubmitted = client.jobs.submit(model=model(), data=SPEC["data"], init=job.spec["init"])
    assert resubmitted.spec["init"] == job.spec["init"]


def test_two_sources_are_refused_before_anything_is_sent(client, file, api):
    with pytest.raises(InvalidSpec) as caught:
        client.jobs.submit(SPEC, init={"job": "0123456789ab"}, weights=file)
    [problem] = caught.value.problems
    assert (problem.pointer, problem.code) == ("/init", "two_sources")
    assert api.client.head(f"/api/v1/files/weights/{reference(b'')[7:]}").status_code == 404


def test_the_command_line_sends_a_file_of_weights(client, api, file, monkeypatch, capsys):
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    spec = file.with_name("job.yaml")
    spec.write_text("model: {kind: mlp}\ndata: {kind: digits}\n")
    command = ["submit", str(spec), "--weights", str(file)]

    def ampctl(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
        return capsys.readouterr().out

    assert "valid" in ampctl(*command, "--dry-run")
    path = f"/api/v1/files/weights/{reference(file.read_bytes())[7:]}"
    assert api.client.head(path).status_code == 404
    job = client.jobs.get(ampctl(*command).strip())
    assert job.spec["init"]["weights"] == reference(file.read_bytes())
