"""Pictures of runs: encoded without a loss, sent in order, kept while the server is away."""

import hashlib
import io
import logging

import numpy as np
import pytest
from PIL import Image

from ampclient.tracking import run_pictures
from ampclient.tracking.images import encode_image
from ampclient.tracking.row_values import UnusableValue
from store.access import projects
from store.files import run_images
from tests.ampclient.tracking.test_restart import log_steps
from tests.folders import paths_in
from tests.tables import every_row


def decoded(content):
    return np.asarray(Image.open(io.BytesIO(content)))


@pytest.fixture
def images_of(client):
    """The name and step of each picture of a run, with its pixels."""

    def read(run_id):
        job = client.jobs.get(run_id)
        return [(i.name, i.step, decoded(job.image_content(i))) for i in job.images()]

    return read


@pytest.fixture
def warnings_of(client):
    """The messages of the warnings of a run with a code."""

    def read(run_id, code):
        events = client.jobs.get(run_id).events(type="warning")
        return [event.data["message"] for event in events if event.data["code"] == code]

    return read


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def constant(value):
    return np.full((2, 2), value, np.uint8)


def test_pictures_are_read_as_they_were_logged(track, images_of, client, tmp_path):
    grey, color = noise(5, 7), noise(4, 6, 3)
    file = tmp_path / "photo.jpg"
    Image.fromarray(noise(8, 8, 3)).save(file)
    with track() as run:
        run.log_image("first", grey)
        run.log(0, loss=1.0)
        run.log(1, loss=1.0)
        run.log_image("val/samples", color / 255.0)
        run.log_image("val/samples", Image.fromarray(color), step=7)
        run.log_image("photo", file, step=8)
    images = images_of(run.id)
    assert [(name, step) for name, step, _ in images] == [
        ("first", 0),
        ("val/samples", 1),
        ("val/samples", 7),
        ("photo", 8),
    ]
    for (_, _, pixels), expected in zip(images, (grey, color, color), strict=False):
        assert (pixels == expected).all()
    job = client.jobs.get(run.id)
    assert job.image_content(job.images("photo")[0]) == file.read_bytes()
    assert [image.name for image in job.images("first")] == ["first"]
    assert {artifact.kind for artifact in job.artifacts()} == {"image"}


def test_pictures_that_are_logged_offline_are_sent_by_sync(
    *, track, client, network, tmp_path, images_of
):
    network.is_down = True
    run = track(folder=tmp_path / "run", flush_timeout_s=0.05)
    for step in range(3):
        run.log(step, loss=1.0)
        run.log_image("a", constant(step))
    run.finish()
    network.is_down = False
    synced = client.runs.sync(tmp_path / "run")
    assert synced.refused == ""
    pictures = images_of(synced.run_id)
    assert [(step, pixels[0, 0]) for _, step, pixels in pictures] == [(0, 0), (1, 1), (2, 2)]


def test_a_picture_whose_response_was_lost_is_stored_once(track, network, images_of):
    with track() as run:
        network.lost_images = 2
        run.log_image("a", constant(1))
        run.log_image("a", constant(2))
        run.log(0, loss=1.0)
    assert [pixels[0, 0] for _, _, pixels in images_of(run.id)] == [1, 2]


def test_pictures_of_steps_that_are_trained_again_are_replaced(track, client, images_of):
    run = track()
    for step in (0, 5, 9):
        log_steps(run, step, step + 1)
        run.log_image("a", constant(step))
    run.finish("failed")
    with client.runs.resume(run.id) as again:
        again.log(5, loss=1.0)
        again.log_image("a", constant(50))
    assert [(step, pixels[0, 0]) for _, step, pixels in images_of(run.id)] == [(0, 0), (5, 50)]
    assert len(client.jobs.get(run.id).artifacts()) == 4


def test_what_is_no_picture_is_left_out_and_said(track, stored, job_of, warnings_of, caplog):
    with caplog.at_level(logging.WARNING), track() as run:
        run.log(0, loss=1.0)
        run.log_image("text", "no file")
        run.log_image("bad name", constant(0))
        run.log_image("../up", constant(0))
        run.log_image("a", constant(0))
    assert caplog.text.count("is left out") == 3
    assert job_of(run).summary["dropped"]["values"] == 3
    assert len(warnings_of(run.id, "values_dropped")) == 3
    assert stored(run)["loss"].tolist() == [1.0]


def test_a_program_that_logs_too_many_pictures_is_told_once(track, images_of, monkeypatch, caplog):
    monkeypatch.setattr(run_pictures, "MAX_IMAGES", 2)
    with caplog.at_level(logging.WARNING), track() as run:
        for number in range(5):
            run.log_image("a", constant(number))
    assert caplog.text.count("at most 2 pictures") == 1
    assert len(images_of(run.id)) == 2


def test_a_run_with_too_many_pictures_says_which_were_dropped(
    track, images_of, warnings_of, monkeypatch
):
    monkeypatch.setattr(run_images, "MAX_IMAGES", 2)
    with track() as run:
        for number in range(3):
            run.log_image("a", constant(number), step=number)
    assert [step for _, step, _ in images_of(run.id)] == [0, 1]
    [message] = warnings_of(run.id, "image_dropped")
    assert "at most 2 pictures" in message


def test_the_quota_of_artifacts_holds_for_pictures(track, api, images_of, warnings_of, tmp_path):
    with api.database.write() as session:
        projects.update(session, "default", {"max_artifact_bytes": 100})
    with track() as run:
        run.log_image("small", constant(0))
        run.log_image("large", noise(64, 64, 3))
        run.log(0, loss=1.0)
    assert [name for name, _, _ in images_of(run.id)] == ["small"]
    [message] = warnings_of(run.id, "image_dropped")
    assert "quota of 100 bytes" in message


class Tensor:
    """As one of PyTorch that needs gradients: only its detached copy is an array."""

    def __init__(self, array):
        self._array = array

    def detach(self):
        return self

    def cpu(self):
        return self._array


ROWS = [
    (np.zeros((2, 3), bool), (2, 3), 0),
    (np.full((2, 3, 1), 255, np.int64), (2, 3), 0),
    (np.array([[0.0, 0.5], [1.0, 1.5]]), (2, 2), 1),
    (np.array([[np.nan, -1.0]]), (1, 2), 2),
    (Tensor(np.ones((2, 2, 3), np.float32)), (2, 2, 3), 0),
    (noise(3, 4, 4), (3, 4, 4), 0),
    ([[0, 255], [300, 0]], (2, 2), 1),
]


@every_row(("image", "shape", "clipped"), ROWS)
def test_arrays_become_png_files(image, shape, clipped):
    encoded = encode_image(image)
    assert encoded.ending == "png"
    assert decoded(encoded.content).shape == shape
    assert encoded.clipped == clipped


def test_floats_are_rounded_to_the_nearest_integer():
    pixels = decoded(encode_image(np.array([[0.0, 0.5, 0.999, 1.0, 2.0]])).content)
    assert pixels.tolist() == [[0, 128, 255, 255, 255]]


NO_PICTURES = [
    (noise(3, 8, 8), "move the channels to the end"),
    (noise(8, 8, 2), "1, 3 or 4 channels"),
    (noise(8), "expected the shape"),
    (np.zeros((0, 5)), "expected the shape"),
    (object(), "received object"),
    ("missing.png", "cannot be read"),
    (__file__, "expected a PNG or JPEG file"),
    (noise(1200, 1200, 3), "scale the picture down"),
]


@every_row(("image", "message"), NO_PICTURES)
def test_anything_else_is_refused_with_the_reason(image, message):
    with pytest.raises(UnusableValue, match=message):
        encode_image(image)


def test_a_picture_before_the_first_row_keeps_the_number_of_steps(track, job_of):
    with track(total_steps=10) as run:
        run.log_image("a", constant(0))
    assert job_of(run).total_steps == 10


def test_the_file_of_a_picture_that_is_not_recorded_is_removed(api, track, monkeypatch):
    monkeypatch.setattr(run_images, "MAX_IMAGES", 0)
    run = track()
    content = encode_image(constant(0)).content
    query = {"name": "a", "step": 0, "sha256": hashlib.sha256(content).hexdigest()}
    address = f"/api/v1/runs/{run.id}/images"
    assert api.client.put(f"{address}/7", params=query, content=content).status_code == 409
    assert api.client.put(f"{address}/0", params=query, content=content).status_code == 200
    assert not paths_in(api.data_dir, "*.png")


def test_the_same_picture_of_a_step_is_stored_once(track, images_of):
    with track() as run:
        run.log_image("a", constant(1), step=3)
        run.log_image("a", constant(1), step=3)
        run.log_image("a", constant(2), step=3)
    assert [pixels[0, 0] for _, _, pixels in images_of(run.id)] == [1, 2]


def test_an_upload_that_is_no_picture_is_refused(api, track):
    run = track()
    for content, status in ((b"GIF89a", 422), (b"\xff\xd8\xffdata", 200), (b"x" * 3_000_000, 413)):
        sha256 = hashlib.sha256(content).hexdigest()
        response = api.client.put(
            f"/api/v1/runs/{run.id}/images/0",
            params={"name": "a", "step": 0, "sha256": sha256},
            content=content,
        )
        assert response.status_code == status, response.text
    wrong = {"name": "a", "step": 0, "sha256": "0" * 64}
    response = api.client.put(f"/api/v1/runs/{run.id}/images/1", params=wrong, content=b"x")
    assert response.status_code == 422
