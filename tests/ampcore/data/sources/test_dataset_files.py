"""Specs that name a dataset: which local file is read for it."""

import pytest

from ampcore import data
from ampspec.data.data import Text
from ampspec.errors import InvalidData


@pytest.fixture
def load(tmp_path):
    def load(dataset, files, data_root=None):
        spec = Text(dataset=dataset, sequence=2, batch_size=1, validation_split=0.0)
        for name, content in {"a.txt": "aab" * 5, "b.txt": "abcd" * 5}.items():
            (tmp_path / name).write_text(content)
        paths = {reference: tmp_path / name for reference, name in files.items()}
        return data.load(spec, data_root=data_root, dataset_files=paths)

    return load


def test_the_file_of_a_version_is_read_wherever_it_is(load, tmp_path):
    (tmp_path / "root").mkdir()
    assert load("poems@2", {"poems@2": "a.txt"}, tmp_path / "root").signature.classes == 2


def test_a_file_for_all_versions_is_used_unless_one_has_its_own(load):
    assert load("poems@2", {"poems": "a.txt"}).signature.classes == 2
    assert load("poems@2", {"poems": "a.txt", "poems@2": "b.txt"}).signature.classes == 4
    assert load("poems", {"poems": "b.txt"}).signature.classes == 4


def test_a_link_is_followed(load, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    assert load("poems", {"poems": "link"}).signature.classes == 2


@pytest.mark.parametrize(
    ("dataset", "files", "received"),
    [("poems", {}, "no datasets"), ("poems@1", {"poems@2": "a.txt", "other": "a.txt"}, "poems@2")],
)
def test_a_dataset_without_a_local_file_names_the_known_ones(load, dataset, files, received):
    with pytest.raises(InvalidData, match=f"{dataset}, dataset: expected.*received {received}"):
        load(dataset, files)


def test_an_object_of_a_store_is_read_from_the_file_that_a_worker_has_downloaded(tmp_path):
    url = "s3://bucket/poems.txt"
    spec = Text(path=url, sequence=2, batch_size=1, validation_split=0.0)
    (tmp_path / "a.txt").write_text("aab" * 5)
    found = data.load(spec, dataset_files={url: tmp_path / "a.txt"})
    assert found.signature.classes == 2
    with pytest.raises(InvalidData, match="txt, path: expected a local path: only"):
        data.load(spec)


def test_a_missing_file_is_named_without_its_folder(load):
    with pytest.raises(InvalidData, match=r"^gone\.txt: expected a file"):
        load("poems", {"poems": "gone.txt"})
