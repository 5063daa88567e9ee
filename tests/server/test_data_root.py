import pytest

from ampspec.jobs import SpecValidationError
from ampspec.references.object_url import ObjectUrl
from server.data_root import DataRoot
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def folder(tmp_path):
    """A datasets folder with two files and symlinks, some of which lead out of it."""
    folder = tmp_path / "datasets"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "mnist.npz").touch()
    (folder / "small.npz").touch()
    (tmp_path / "outside.npz").touch()
    (folder / "out.npz").symlink_to(tmp_path / "outside.npz")
    (folder / "in.npz").symlink_to("small.npz")
    (folder / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    return folder


def check(folder, make_spec, path):
    DataRoot(folder).check(make_spec(data={"kind": "npz", "path": path}))


@every_row(
    "path", ["small.npz", "images/mnist.npz", "images/../small.npz", "in.npz", "./small.npz"]
)
def test_a_file_in_the_folder_is_accepted(folder, make_spec, path):
    check(folder, make_spec, path)


def test_a_folder_is_accepted_for_data_that_may_be_one(folder, make_spec):
    spec = make_spec(data={"kind": "images", "path": "images"})
    DataRoot(folder).check(spec)


@every_row(
    "path",
    [
        "../outside.npz",
        "images/../../outside.npz",
        "out.npz",
        "up/outside.npz",
        "/etc/passwd",
        "images",
        ".",
        "loop",
        "nothing.npz",
        "x" * 1000,
    ],
)
def test_a_path_that_is_no_file_in_the_folder_is_refused(folder, make_spec, path):
    with pytest.raises(SpecValidationError) as caught:
        check(folder, make_spec, path)
    [problem] = caught.value.problems
    assert problem.pointer == "/data/path"
    assert "small.npz" in problem.expected


def test_an_absolute_path_into_the_folder_is_refused(folder, make_spec):
    with pytest.raises(SpecValidationError):
        check(folder, make_spec, str(folder / "small.npz"))


def test_a_misspelt_name_gets_a_suggestion(folder, make_spec):
    with pytest.raises(SpecValidationError) as caught:
        check(folder, make_spec, "smal.npz")
    assert caught.value.problems[0].suggestion == "small.npz"


def test_only_a_few_dataset_names_are_suggested(folder, make_spec):
    for number in range(50):
        (folder / f"file-{number:02}.npz").touch()
    with pytest.raises(SpecValidationError) as caught:
        check(folder, make_spec, "nothing")
    assert caught.value.problems[0].expected.count(".npz") == 5


@every_row(
    ("path", "why"),
    [
        ("../outside.npz", "which leads out of the datasets folder"),
        ("out.npz", "which leads out of the datasets folder"),
        ("up/outside.npz", "which leads out of the datasets folder"),
        ("/etc/passwd", "an absolute path"),
    ],
)
def test_the_error_says_why_the_path_is_refused(folder, make_spec, path, why):
    with pytest.raises(SpecValidationError) as caught:
        check(folder, make_spec, path)
    assert caught.value.problems[0].received == f'"{path}", {why}'


def test_a_symlink_out_of_the_folder_is_neither_listed_nor_suggested(folder, make_spec):
    with pytest.raises(SpecValidationError) as caught:
        check(folder, make_spec, "outt.npz")
    [problem] = caught.value.problems
    assert "(it holds images/mnist.npz, in.npz, small.npz)" in problem.expected
    assert problem.suggestion is None


def test_data_without_a_path_needs_no_folder(tmp_path, make_spec):
    DataRoot(tmp_path / "nothing").check(make_spec())


def test_a_submitted_job_cannot_leave_the_folder(api):
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "npz", "path": "../../etc/passwd"}}
    for path in ("/api/v1/jobs", "/api/v1/jobs/validate"):
        answer = api.client.post(path, json=spec)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_spec")
        assert answer.json()["errors"][0]["pointer"] == "/data/path"


def test_a_submitted_job_may_name_a_file_in_the_folder(api):
    (api.data_dir / "datasets").mkdir(parents=True)
    (api.data_dir / "datasets" / "mnist.npz").touch()
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "npz", "path": "mnist.npz"}}
    assert api.client.post("/api/v1/jobs", json=spec).status_code == 201


PREFIXES = [ObjectUrl.parse_prefix("s3://bucket/birds"), ObjectUrl.parse_prefix("gs://other")]


def test_an_object_below_an_allowed_prefix_is_accepted(folder, make_spec):
    spec = make_spec(data={"kind": "npz", "path": "s3://bucket/birds/all.npz"})
    DataRoot(folder, PREFIXES).check(spec)


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        (PREFIXES, "an object below s3://bucket/birds/ or gs://other/"),
        ([], "a path or a dataset: this server allows no object stores"),
    ],
)
def test_any_other_object_is_refused_with_the_allowed_prefixes(
    folder, make_spec, prefixes, expected
):
    spec = make_spec(data={"kind": "npz", "path": "s3://bucket/birds2/all.npz"})
    with pytest.raises(SpecValidationError) as caught:
        DataRoot(folder, prefixes).check(spec)
    [problem] = caught.value.problems
    assert (problem.pointer, problem.code) == ("/data/path", "url_not_allowed")
    assert problem.detail == f'Expected {expected}; received "s3://bucket/birds2/all.npz".'
