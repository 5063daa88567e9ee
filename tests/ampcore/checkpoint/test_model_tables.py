"""Models whose tables arrive in pieces from several ranks: the files are those of one process."""

import json
import zipfile
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest

from ampcore.checkpoint.model_files import save_models, save_weights
from ampcore.checkpoint.model_tables import layer_tables, save_with_tables
from ampcore.distributed import SingleRank
from ampcore.distributed.row_shards import RowShard
from ampcore.distributed.tables import whole_tables
from ampcore.distributed.tables.whole_tables import VariableRows, WholeTable
from ampcore.models.builders.embedding import embedding, sharded
from ampcore.models.task import Network
from ampcore.precision import layer_policies
from ampspec.models.model import EmbeddingModel
from ampspec.precision.precision import Precision
from tests.ampcore.distributed.thread_communicator import on_ranks

ROWS, DIM, RANKS = 51, 4, 2
SPEC = EmbeddingModel(vocabulary=ROWS, dim=DIM, slots=3, nnz=2, hidden=(5,), placement="sharded")
SIGNATURE = SimpleNamespace(
    vocabulary=ROWS, classes=2, input_shape=(3, 2), input_dtype="int32", targets={}
)


def whole_network(policy):
    """The network of one process, with known weights."""
    keras.utils.set_random_seed(0)
    [model] = embedding(SPEC, SIGNATURE).values()
    model = layer_policies(Precision(policy=policy)).apply(model)
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape))
    return Network("model", model)


def network_of_rank(policy, whole, shard):
    """The network of a rank with its rows, and the same other weights."""
    keras.utils.set_random_seed(0)
    communicator = SimpleNamespace(rank=shard.rank, size=shard.size)
    [network] = sharded(
        SPEC, SIGNATURE, layer_policies(Precision(policy=policy)), communicator
    ).networks
    for own, other in zip(network.model.weights, whole.model.weights, strict=True):
        value = np.asarray(other.value.numpy())
        own.assign(shard.own_rows(value) if len(value) == ROWS else value)
    return network


@pytest.fixture(params=["float32", "bfloat16"])
def folders(request, tmp_path, monkeypatch):
    """Two folders with the files of one process, and those of two ranks."""
    monkeypatch.setattr(whole_tables, "PIECE_BYTES", 64)
    whole = whole_network(request.param)
    save_weights([whole], tmp_path)
    list(save_models([whole], tmp_path))
    shards = [RowShard(ROWS, rank, RANKS) for rank in range(RANKS)]
    networks = [network_of_rank(request.param, whole, shard) for shard in shards]

    def save(communicator):
        network, shard = networks[communicator.rank], shards[communicator.rank]
        table = network.model.get_layer("embedding").embeddings

        def tables():
            return {id(table): WholeTable(VariableRows(table), shard, communicator)}

        if communicator.rank > 0:
            for _ in range(2):
                tables()[id(table)].finish()
            return
        save_weights([network], tmp_path / "ranks", tables())
        list(save_models([network], tmp_path / "ranks", tables=tables()))

    (tmp_path / "ranks").mkdir()
    on_ranks(RANKS, save)
    # The model is as it was before.
    layer = networks[0].model.get_layer("embedding")
    assert layer.input_dim == layer.embeddings.shape[0] == shards[0].local_rows
    assert "save_own_variables" not in vars(layer)
    return tmp_path, tmp_path / "ranks"


def contents(file):
    """The configuration, and the weights by path with their types and attributes."""
    with zipfile.ZipFile(file) as archive:
        weights = {}

        def visit(name, item):
            data = item[()] if isinstance(item, h5py.Dataset) else None
            kind = None if data is None else (item.dtype, item.shape, data.tobytes())
            weights[name] = (kind, dict(item.attrs))

        with h5py.File(archive.open("model.weights.h5")) as found:
            found.visititems(visit)
        return archive.namelist(), json.loads(archive.read("config.json")), weights


def test_the_files_are_those_that_one_process_saves(folders):
    one, ranks = folders
    assert sorted(file.name for file in ranks.iterdir()) == ["model.keras", "weights.safetensors"]
    names = "weights.safetensors"
    assert (ranks / names).read_bytes() == (one / names).read_bytes()
    for found, expected in zip(*(contents(f / "model.keras") for f in folders), strict=True):
        assert found == expected


def test_keras_loads_the_model_with_the_whole_table(folders):
    expected, found = (keras.models.load_model(folder / "model.keras") for folder in folders)
    for one, other in zip(found.get_weights(), expected.get_weights(), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    keys = np.arange(12).reshape(2, 3, 2)
    np.testing.assert_array_equal(found(keys), expected(keys))


@pytest.fixture
def with_two_tables():
    """A model inside of another one, whose two tables are saved in pieces."""
    keys = keras.Input((3,), dtype="int32")
    vectors = [keras.layers.Embedding(7, 2, name=name)(keys) for name in ("first", "second")]
    inner = keras.Model(keys, keras.layers.Concatenate()(vectors), name="inner")
    given = keras.Input((3,), dtype="int32")
    return keras.Model(given, inner(given))


def tables_of(model):
    inner = model.get_layer("inner")
    shard = RowShard(7, 0, 1)
    variables = [inner.get_layer(name).embeddings for name in ("first", "second")]
    return {
        id(variable): WholeTable(VariableRows(variable), shard, SingleRank())
        for variable in variables
    }


def test_tables_of_inner_models_are_found_by_the_names_of_their_layers(with_two_tables, tmp_path):
    model = with_two_tables
    save_with_tables(model, tmp_path / "a.keras", layer_tables(model, tables_of(model)))
    found = keras.models.load_model(tmp_path / "a.keras")
    np.testing.assert_equal(found.get_weights(), model.get_weights())


def test_a_failed_save_leaves_no_file_and_the_model_as_it_was(
    with_two_tables, tmp_path, monkeypatch
):
    model = with_two_tables

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("ampcore.checkpoint.model_tables._write_rows", fail)
    with pytest.raises(OSError, match="No space"):
        list(save_models([Network("a", model)], tmp_path, tables=tables_of(model)))
    assert list(tmp_path.iterdir()) == []
    model.save(tmp_path / "a.keras")
    found = keras.models.load_model(tmp_path / "a.keras")
    np.testing.assert_equal(found.get_weights(), model.get_weights())
