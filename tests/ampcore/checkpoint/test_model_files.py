import keras
import numpy as np
import pytest

from ampcore.checkpoint.model_files import save_models
from ampcore.models.task import Network


@pytest.fixture
def networks():
    models = [keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]) for _ in range(2)]
    return [Network(name, model) for name, model in zip("ab", models, strict=True)]


def test_each_network_is_saved_to_its_own_file_in_a_new_folder(networks, tmp_path):
    folder = tmp_path / "not" / "there"
    files = list(save_models(networks, folder))
    assert files == [folder / "a.keras", folder / "b.keras"]
    assert sorted(folder.iterdir()) == files
    for network, file in zip(networks, files, strict=True):
        loaded = keras.saving.load_model(file).get_weights()
        np.testing.assert_equal(loaded, network.model.get_weights())


def test_a_failed_save_keeps_the_old_file_and_leaves_no_partial_one(
    networks, tmp_path, monkeypatch
):
    (tmp_path / "a.keras").write_text("the one before")

    def fail_halfway(file):
        file.write_text("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(networks[0].model, "save", fail_halfway)
    with pytest.raises(OSError, match="No space"):
        list(save_models(networks, tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["a.keras"]
    assert (tmp_path / "a.keras").read_text() == "the one before"
