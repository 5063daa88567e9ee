"""Behaviour that all models of the API share."""

import json
import math

import pytest

from ampspec.api.base import NON_FINITE, UnknownState
from ampspec.api.job.comparison import Result
from ampspec.api.job.jobs import Latest
from ampspec.api.job.steps import Steps
from ampspec.api.tokens import CreatedToken, TokenList
from ampspec.jobs import State
from ampspec.telemetry import COLUMN_DTYPES

TOKEN = {
    "id": "0000",
    "name": "anna",
    "role": "member",
    "project": "default",
    "created_at": "2030-01-02T03:04:05Z",
    "created_by": None,
    "expires_at": None,
    "revoked_at": None,
}


def test_the_scopes_of_a_token_are_read_as_version_0_5_sends_them():
    [token] = TokenList.from_json({"items": [{**TOKEN, "rights": ["code", "later"]}]}).items
    assert (token.scopes, token.rights) == (["jobs:run-code", "later"], ["code"])


@pytest.mark.parametrize("name", NON_FINITE)
def test_a_non_finite_number_is_a_float_in_python_and_a_string_in_json(name):
    latest = Latest.from_json({"loss": name})
    assert repr(latest.loss) == repr(NON_FINITE[name])
    assert latest.to_json() == {"loss": name}
    assert json.loads(latest.model_dump_json(exclude_unset=True)) == {"loss": name}


def test_non_finite_numbers_are_converted_at_any_depth():
    result = Result.from_json({"name": "x", "values": [1, {"a": ["NaN"]}, "text"]})
    assert math.isnan(result.values[1]["a"][0])
    assert result.to_json() == {"name": "x", "values": [1, {"a": ["NaN"]}, "text"]}


def test_fields_of_a_newer_server_survive_at_any_depth():
    document = {"items": [{**TOKEN, "scopes": ["jobs"]}], "total": 1}
    assert TokenList.from_json(document).to_json() == document


def test_a_role_of_a_newer_server_is_a_string():
    assert TokenList.from_json({"items": [{**TOKEN, "role": "auditor"}]}).items[0].role == "auditor"


def test_a_secret_is_not_in_the_repr():
    assert "amp_s" not in repr(CreatedToken.from_json({**TOKEN, "secret": "amp_s"}))


def test_an_unknown_state_has_the_properties_of_a_state():
    state = UnknownState("archived", is_terminal=True)
    known = State.SUCCEEDED
    assert (state.is_terminal, state.is_active) == (known.is_terminal, known.is_active)
    assert state == "archived"


def test_the_description_of_steps_names_every_column():
    description = Steps.model_fields["data"].description
    assert all(name in description for name in COLUMN_DTYPES)
