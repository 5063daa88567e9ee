"""`model: {kind: bundle}`: the reference, the entry point, and the bounds of the options."""

import pytest

from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.models.bundle import MAX_OPTIONS_BYTES, MAX_OPTIONS_DEPTH
from ampspec.preflight import preflight

BUNDLE = "sha256:" + "0" * 64


def parse(data=None, **fields):
    model = {"kind": "bundle", "bundle": BUNDLE, **fields}
    return JobSpec.parse({"model": model, "data": data or {"kind": "digits"}})


def nested(levels):
    return {"a": nested(levels - 1)} if levels > 1 else {"a": 1}


def problem_of(**fields):
    with pytest.raises(SpecValidationError) as raised:
        parse(**fields)
    [problem] = raised.value.problems
    return problem


def test_a_bundle_has_an_entry_point_and_options():
    model = parse(build="models.net:make", options={"units": [1, {"b": None}]}).model
    assert (model.build, model.options) == ("models.net:make", {"units": [1, {"b": None}]})
    default = parse()
    assert (default.model.build, default.model.options) == ("net:build", {})
    assert JobSpec.parse(default.to_json()) == default


@pytest.mark.parametrize(
    "text", ["", "sha256:", "0" * 64, "sha256:" + "0" * 63, "sha256:" + "G" * 64, BUNDLE + "\n"]
)
def test_a_bundle_is_named_by_its_sha256(text):
    assert problem_of(bundle=text).pointer == "/model/bundle"


@pytest.mark.parametrize(
    "text",
    ["build", "net:", ":build", "net:a.b", "net.py:build", "../net:build", "net:build\n", "1:b"],
)
def test_the_entry_point_is_a_function_of_a_module(text):
    if text == "net.py:build":  # a module `py` of a package `net`
        assert parse(build=text).model.build == text
    else:
        assert problem_of(build=text).pointer == "/model/build"


@pytest.mark.parametrize(
    "options",
    [
        nested(MAX_OPTIONS_DEPTH + 1),
        nested(500),
        {"a": "x" * MAX_OPTIONS_BYTES},
        {"a": float("nan")},
        {"a": [float("inf")]},
        {"a": object()},
        ["a"],
    ],
)
def test_options_are_a_bounded_json_object(options):
    with pytest.raises(SpecValidationError) as raised:
        parse(options=options)
    assert {problem.pointer.split("/")[2] for problem in raised.value.problems} == {"options"}


def test_options_may_use_all_levels():
    assert parse(options=nested(MAX_OPTIONS_DEPTH)).model.options


@pytest.mark.parametrize("kind", ["digits", "synthetic", "synthetic_clicks"])
def test_every_kind_of_data_may_be_used(kind):
    assert parse(data={"kind": kind}).data.kind == kind


def test_the_preflight_says_that_only_the_code_knows_the_layers():
    report = preflight(parse())
    assert report.figures is None
    [finding] = [finding for finding in report.findings if finding.code == "layers_unknown"]
    assert "bundle" in finding.message
