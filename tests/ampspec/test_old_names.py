"""Names of 0.5 can still be imported."""

import importlib
import sys

import pytest

import ampclient
import ampdata
import ampspec.telemetry
from ampclient import _old_names as old_names_of_ampclient
from ampclient.workers import Workers
from ampcore import old_names as old_names_of_ampcore

NEW_NAMES = {**old_names_of_ampcore.NEW_NAMES, **old_names_of_ampclient.NEW_NAMES}


@pytest.fixture(autouse=True)
def forget():
    yield
    for name in NEW_NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("old", "new"), NEW_NAMES.items())
def test_a_module_is_found_under_its_old_name_with_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=r"the old name goes with") as warned:
        module = importlib.import_module(old)
    assert any(f"{old} is now {new};" in str(warning.message) for warning in warned)
    contents = vars(importlib.import_module(new))
    public = {name: value for name, value in contents.items() if not name.startswith("_")}
    assert public
    assert {name: getattr(module, name) for name in public} == public


def test_names_of_an_old_module_are_those_of_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"ampclient\.job is now ampclient\._job\.job"):
        from ampclient.job import Job

    assert Job is ampclient.Job


def test_the_columns_of_steps_have_their_old_name_too():
    with pytest.warns(DeprecationWarning, match=r"the old name goes with") as warned:
        from ampcore.telemetry import COLUMNS

    assert any("COLUMNS is now COLUMN_DTYPES" in str(warning.message) for warning in warned)
    assert COLUMNS is ampspec.telemetry.COLUMN_DTYPES


OLD_CONTENTS = {
    "ampclient.lab": ("Kind", "BaseLab", "Lab", "AsyncLab", "RawLab", "AsyncRawLab"),
    "ampclient.admin": (
        *("Tokens", "BaseTokens", "AsyncTokens", "RawTokens", "AsyncRawTokens"),
        *("Projects", "BaseProjects", "AsyncProjects", "RawProjects", "AsyncRawProjects"),
    ),
    "ampclient.wait": ("Progress", "has_ended", "refreshed", "wait_for", "wait_until"),
    "ampclient.bulk_jobs": ("BaseBulkJobs",),
    "ampclient.client": ("BaseClient", "ConnectedClient", "RawClient", "AsyncRawClient"),
    "ampclient.datasets": ("BaseDatasets", "AsyncDatasets", "RawDatasets", "AsyncRawDatasets"),
    "ampclient.files": ("BaseFiles", "AsyncFiles", "RawFiles", "AsyncRawFiles"),
    "ampclient.jobs": ("BaseJobs", "AsyncJobs", "RawJobs", "AsyncRawJobs"),
    "ampclient.runs": ("BaseRuns", "AsyncRuns", "RawRuns", "AsyncRawRuns"),
    "ampclient.workers": ("BaseWorkers", "AsyncWorkers", "RawWorkers", "AsyncRawWorkers"),
    "ampcore.checkpoint": ("Difference",),
    "ampcore.distributed": ("Replicas", "SingleReplica", "replicas_of"),
}
"""Contents of modules of 0.5 that have another name now, or were there for one release."""


@pytest.mark.filterwarnings("ignore:.*the old name goes with 0.7:DeprecationWarning")
@pytest.mark.parametrize("module", OLD_CONTENTS)
def test_the_contents_of_a_module_are_found_under_their_old_names(module):
    contents = importlib.import_module(module)
    for name in OLD_CONTENTS[module]:
        assert getattr(contents, name) is not None


def test_the_classes_of_a_resource_are_one_class_now():
    with pytest.warns(DeprecationWarning, match=r"AsyncWorkers is now ampclient\.workers\.Workers"):
        from ampclient.workers import AsyncWorkers

    assert AsyncWorkers is Workers


def test_an_unknown_name_of_a_module_is_not_found():
    with pytest.raises(ImportError, match="cannot import name 'Lab'"):
        from ampclient.workers import Lab  # noqa: F401


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ampcore\.lab'"):
        importlib.import_module("ampcore.lab")


def test_the_module_of_the_new_name_is_unchanged():
    with pytest.warns(DeprecationWarning, match=r"now ampdata"):
        importlib.import_module("ampcore.formats")
    assert ampdata.__spec__.name == ampdata.__name__ == "ampdata"
