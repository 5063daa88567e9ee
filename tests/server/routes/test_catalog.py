import jsonschema
import pytest

from ampspec.layers.catalog import LAYERS
from ampspec.precision.precision import COMPUTE_DTYPE
from server.catalog import catalog
from store import workers
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@every_row(
    ("name", "some"),
    [
        ("models", {"mlp", "gan", "transformer_lm"}),
        ("data-kinds", {"digits", "text"}),
        ("losses", {"cross_entropy", "focal", "dice", "huber"}),
        ("metrics", {"accuracy", "auc", "iou", "perplexity"}),
        ("optimizers", {"sgd", "adam"}),
    ],
)
def test_every_kind_is_listed_with_a_valid_schema(name, some):
    items = catalog.kinds(name).items
    assert {item.kind for item in items} > some
    for item in items:
        assert item.description
        jsonschema.Draft202012Validator.check_schema(item.json_schema)
        assert item.json_schema["properties"]["kind"]["const"] == item.kind


def test_every_kind_of_layer_is_listed_with_a_valid_schema():
    items = catalog.kinds("layers").items
    assert [item.kind for item in items] == list(LAYERS)
    for item in items:
        assert item.description
        jsonschema.Draft202012Validator.check_schema(item.json_schema)
        assert item.json_schema["properties"]["layer"]["const"] == item.kind
        assert set(item.json_schema["properties"]) == set(LAYERS[item.kind].model_fields)


@every_row(
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
    [kind] = [item for item in catalog.kinds("layers").items if item.kind == "Conv2D"]
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


@every_row("name", catalog.CLASSES)
def test_every_list_of_kinds_is_served(api, name):
    answer = api.client.get(f"/api/v1/catalog/{name}").json()
    items = answer["items"]
    assert [item["kind"] for item in items] == [kind.kind for kind in catalog.kinds(name).items]
    assert sorted(items[0]) == ["description", "kind", "schema"]
    # The path of version 0.5.
    assert api.client.get(f"/api/v1/{name}").json() == answer


def test_the_policies_are_served(api):
    answer = api.client.get("/api/v1/catalog/policies").json()
    assert api.client.get("/api/v1/policies").json() == answer
    policy = answer["items"][0]
    assert sorted(policy) == ["compute_dtype", "loss_scale", "name", "variable_dtype"]


def test_what_packages_offer_is_listed_with_the_workers_that_have_it(api):
    entry = {
        **{"package": "custom-package", "version": "1.0", "name": "one"},
        **{"description": "One.", "schema": {"properties": {"units": {}}}},
    }
    reported = [entry | {"group": group} for group in catalog.EXTENSIBLE.values()]
    with api.database.write() as session:
        for worker in ("b", "a", "without"):
            workers.register(
                session, worker, hostname="h", pid=1, slots=1, version="1", queues=["default"]
            )
        for worker in ("a", "b"):
            workers.heartbeat(session, worker, hardware={"packages": reported})
    for name in catalog.EXTENSIBLE:
        answer = api.client.get(f"/api/v1/catalog/{name}").json()
        assert answer["packages"] == [{**entry, "workers": ["a", "b"]}], name
        assert "package" in {item["kind"] for item in answer["items"]}, name
