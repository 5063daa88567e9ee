import jsonschema
import pytest

from ampcore.spec.availability import DATA, MODELS, POLICIES
from server import catalog


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.mark.parametrize(
    ("kinds", "available"), [(catalog.models, MODELS), (catalog.datasets, DATA)]
)
def test_every_kind_is_listed_with_a_schema_that_takes_its_defaults(kinds, available):
    items = kinds().items
    assert {item.kind for item in items if item.available} == set(available)
    assert any(not item.available for item in items)
    for item in items:
        assert item.description
        jsonschema.Draft202012Validator.check_schema(item.schema_)
        assert item.schema_["properties"]["kind"]["const"] == item.kind


def test_policies_are_listed_with_what_they_stand_for():
    policies = {item.name: item for item in catalog.policies().items}
    assert {name for name, item in policies.items() if item.available} == set(POLICIES)
    half = policies["mixed_float16"]
    assert (half.compute_dtype, half.variable_dtype, half.loss_scale) == (
        "float16",
        "float32",
        "dynamic",
    )
    assert policies["float16"].variable_dtype == "float16"
    assert policies["auto"].compute_dtype is policies["auto"].loss_scale is None


def test_the_catalog_is_served(api):
    models = api.client.get("/api/v1/models").json()["items"]
    assert sorted(models[0]) == ["available", "description", "kind", "schema"]
    assert api.client.get("/api/v1/datasets").json()["items"][0]["kind"] == "digits"
    policy = api.client.get("/api/v1/policies").json()["items"][0]
    assert sorted(policy) == sorted(
        ["name", "available", "compute_dtype", "variable_dtype", "loss_scale"]
    )
