import jsonschema
import pytest

from ampcore.spec.layers.catalog import LAYERS
from ampcore.spec.precision import COMPUTE_DTYPE
from server import catalog


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.mark.parametrize(
    ("kinds", "some"),
    [
        (catalog.models, {"mlp", "gan", "transformer_lm"}),
        (catalog.data_kinds, {"digits", "text"}),
        (catalog.optimizers, {"sgd", "adam"}),
    ],
)
def test_every_kind_is_listed_with_a_valid_schema(kinds, some):
    items = kinds().items
    assert {item.kind for item in items} > some
    for item in items:
        assert item.description
        jsonschema.Draft202012Validator.check_schema(item.json_schema)
        assert item.json_schema["properties"]["kind"]["const"] == item.kind


def test_every_kind_of_layer_is_listed_with_a_valid_schema():
    items = catalog.layers().items
    assert [item.kind for item in items] == list(LAYERS)
    for item in items:
        assert item.description
        jsonschema.Draft202012Validator.check_schema(item.json_schema)
        assert item.json_schema["properties"]["layer"]["const"] == item.kind
        assert set(item.json_schema["properties"]) == set(LAYERS[item.kind].model_fields)


@pytest.mark.parametrize(
    ("document", "valid"),
    [
        ({"layer": "Conv2D", "filters": "classes", "kernel_size": [3, 3]}, True),
        ({"layer": "Conv2D", "filters": 8, "kernel_size": 3, "kernel_initializer": "ones"}, True),
        ({"layer": "Conv2D", "filters": 8, "kernel_size": [3]}, False),
        ({"layer": "Conv2D", "filters": "many", "kernel_size": 3}, False),
        ({"layer": "Conv2D", "filters": 8, "kernel_size": 3, "kernel_initializer": "o"}, False),
        ({"layer": "Conv2D", "kernel_size": 3}, False),
    ],
)
def test_the_schema_of_a_layer_decides_as_the_spec_does(document, valid):
    [kind] = [item for item in catalog.layers().items if item.kind == "Conv2D"]
    assert jsonschema.Draft202012Validator(kind.json_schema).is_valid(document) is valid
    try:
        LAYERS["Conv2D"].model_validate(document)
    except ValueError:
        assert not valid
    else:
        assert valid


def test_policies_are_listed_with_their_dtypes_and_loss_scale():
    policies = {item.name: item for item in catalog.policies().items}
    assert set(policies) == {*COMPUTE_DTYPE, "auto"}
    half = policies["mixed_float16"]
    assert (half.compute_dtype, half.variable_dtype, half.loss_scale) == (
        "float16",
        "float32",
        "dynamic",
    )
    assert policies["float16"].variable_dtype == "float16"
    assert policies["bfloat16"].variable_dtype == "bfloat16"
    assert policies["O3"].variable_dtype == "float16"
    assert policies["O2"].variable_dtype == "float32"
    assert policies["auto"].compute_dtype is None
    assert policies["auto"].loss_scale == "auto"


def test_the_catalog_is_served(api):
    models = api.client.get("/api/v1/models").json()["items"]
    assert sorted(models[0]) == ["description", "kind", "schema"]
    assert api.client.get("/api/v1/layers").json()["items"][0]["kind"] == "Dense"
    assert api.client.get("/api/v1/data-kinds").json()["items"][0]["kind"] == "digits"
    assert api.client.get("/api/v1/optimizers").json()["items"][0]["kind"] == "sgd"
    policy = api.client.get("/api/v1/policies").json()["items"][0]
    assert sorted(policy) == ["compute_dtype", "loss_scale", "name", "variable_dtype"]
