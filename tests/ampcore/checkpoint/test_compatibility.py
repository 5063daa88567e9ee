import ml_dtypes
import numpy as np
import pytest

from ampcore.checkpoint import FieldChange, check_compatible, match_arrays
from ampspec.errors import IncompatibleCheckpoint
from ampspec.jobs import Reason

MODEL = {"kind": "mlp", "hidden": [16]}
DATA = {"kind": "digits", "batch_size": 256}


def document(**parts):
    return {"model": MODEL, "data": DATA} | parts


@pytest.fixture
def saved(make_checkpoint, job):
    """The manifest of a job with these parts."""

    def make(**parts):
        return make_checkpoint(step=40, spec=job(**parts).to_json()).manifest

    return make


def test_the_same_job_has_no_differences(saved, job):
    assert check_compatible(saved(), job()) == []


def test_another_version_of_a_dataset_is_other_data(saved, job):
    def on(dataset):
        return {"data": {"kind": "npz", "dataset": dataset}}

    assert check_compatible(saved(**on("birds@1")), job(**on("birds@1"))) == []
    with pytest.raises(IncompatibleCheckpoint, match='was "birds@1" and is "birds@2"'):
        check_compatible(saved(**on("birds@1")), job(**on("birds@2")))


def test_a_job_whose_integers_were_divided_by_255_unasked_resumes_if_it_asks_for_it(
    make_checkpoint, job
):
    before = job(data={"kind": "npz", "path": "a.npz"}).to_json()
    del before["data"]["preprocessing"]  # as versions before 0.6 saved it
    saved = make_checkpoint(step=40, spec=before).manifest
    pixels = {"x": {"rescaling": "pixels"}}
    asking = job(data={"kind": "npz", "path": "a.npz", "preprocessing": pixels})
    assert check_compatible(saved, asking) == []
    with pytest.raises(IncompatibleCheckpoint, match=r"because data\.preprocessing\.x was"):
        check_compatible(saved, job(data={"kind": "npz", "path": "a.npz"}))


def test_a_checkpoint_of_a_version_without_split_seed_resumes_on_the_rows_of_its_training(
    make_checkpoint, job
):
    data, train = {"kind": "csv", "path": "a.csv"}, {"seed": 7}
    before = job(data=data, train=train).to_json()
    del before["data"]["split_seed"]
    saved = make_checkpoint(step=40, spec=before).manifest
    assert check_compatible(saved, job(data=data | {"split_seed": 7}, train=train)) == []
    with pytest.raises(IncompatibleCheckpoint, match=r"data\.split_seed was 7 and is 0"):
        check_compatible(saved, job(data=data, train=train))


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_only_archives_of_versions_without_preprocessing_had_their_integers_divided(
    make_checkpoint, job, kind
):
    before = job(data={"kind": kind, "path": "a", "preprocessing": {}})
    assert check_compatible(make_checkpoint(step=40, spec=before.to_json()).manifest, before) == []


@pytest.mark.parametrize(
    ("parts", "fields"),
    [
        ({"name": "again"}, ["name"]),
        ({"labels": {"team": "vision"}}, ["labels.team"]),
        ({"runtime": {"device": "cpu"}}, ["runtime.device"]),
        ({"guard": {"max_consecutive_skips": 7}}, ["guard.max_consecutive_skips"]),
        ({"loss_scale": {"mode": "fixed"}}, ["loss_scale.mode", "loss_scale.scale"]),
        ({"precision": {"policy": "mixed_bfloat16"}}, ["name", "precision.policy"]),
        ({"train": {"epochs": 3}}, ["train.epochs"]),
        ({"train": {"steps": 3}}, ["train.steps"]),
        ({"train": {"eval_every_epochs": 3}}, ["train.eval_every_epochs"]),
    ],
)
def test_fields_that_the_state_does_not_depend_on_may_change(saved, job, parts, fields):
    differences = check_compatible(saved(), job(**parts))
    assert sorted(difference.field for difference in differences) == fields


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"model": {"kind": "mlp", "hidden": [8]}}, "model.hidden was [16] and is [8]"),
        ({"model": {"kind": "cnn"}}, 'model.kind was "mlp" and is "cnn"'),
        ({"data": DATA | {"batch_size": 64}}, "data.batch_size was 256 and is 64"),
        ({"data": DATA | {"shuffle": False}}, "data.shuffle was true and is false"),
        ({"optimizer": {"kind": "sgd"}}, 'optimizer.kind was "adam" and is "sgd"'),
        ({"optimizer": {"kind": "adam", "beta_1": 0.5}}, "optimizer.beta_1 was 0.9 and is 0.5"),
        ({"train": {"seed": 1}}, "train.seed was 0 and is 1"),
    ],
)
def test_fields_that_the_state_depends_on_may_not_change(saved, job, parts, sentence):
    with pytest.raises(IncompatibleCheckpoint) as caught:
        check_compatible(saved(), job(**parts))
    assert caught.value.reason is Reason.INVALID_CHECKPOINT
    assert str(caught.value) == (
        f"The job cannot resume from its checkpoint after 40 steps, because {sentence}; change it "
        "back, or start a new job."
    )


def test_the_number_of_accumulated_batches_may_not_change(saved, job):
    manifest = saved()
    manifest.spec["train"]["accumulate"] = 4
    with pytest.raises(IncompatibleCheckpoint, match=r"train\.accumulate was 4 and is 1;"):
        check_compatible(manifest, job())


def test_the_ranks_may_change_if_the_micro_batches_of_a_step_stay(saved, job):
    manifest = saved()
    manifest.spec["train"]["accumulate"] = 2
    two_ranks = job(runtime={"devices": 2})
    changed = check_compatible(manifest, two_ranks)
    assert [one.field for one in changed] == ["train.accumulate", "runtime.devices"]
    with pytest.raises(IncompatibleCheckpoint, match=r"runtime\.devices was 1 and is 4"):
        check_compatible(manifest, job(runtime={"devices": 4}))
    with pytest.raises(IncompatibleCheckpoint, match=r"runtime\.workers was null and is 3"):
        check_compatible(manifest, job(runtime={"workers": 3}))


def test_the_message_names_every_refused_field_and_no_other(saved, job):
    with pytest.raises(IncompatibleCheckpoint) as caught:
        check_compatible(
            saved(), job(name="again", train={"seed": 1}, model=MODEL | {"dropout": 0.5})
        )
    assert "model.dropout was 0.0 and is 0.5, train.seed was 0 and is 1;" in str(caught.value)
    assert "again" not in str(caught.value)


def test_a_field_that_an_old_checkpoint_lacks_has_its_default(saved, job):
    manifest = saved()
    del manifest.spec["model"]["dropout"]
    assert check_compatible(manifest, job()) == []


def test_a_field_that_no_longer_exists_is_compared(saved, job):
    manifest = saved()
    manifest.spec["model"]["gone"] = 1
    with pytest.raises(IncompatibleCheckpoint, match=r"model\.gone was 1 and is null"):
        check_compatible(manifest, job())


def test_a_difference_shows_both_values():
    assert str(FieldChange("train.epochs", 1, None)) == "train.epochs was 1 and is null"


# ---- The arrays


def arrays(**changed):
    made = {"w": np.ones((2, 3), np.float32), "count": np.array(7), "done": np.array([True])}
    return {name: array for name, array in (made | changed).items() if array is not None}


WANTED = {"w": ((2, 3), "float32"), "count": ((), "int64"), "done": ((1,), "bool")}


def test_matching_arrays_are_returned_uncopied():
    given = arrays()
    fitting = match_arrays(given, WANTED)
    assert list(fitting) == list(WANTED)
    assert all(fitting[name] is given[name] for name in given)


@pytest.mark.parametrize("before", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("now", ["float32", "float16", "bfloat16"])
def test_a_float_array_is_cast_to_the_wanted_float_dtype(before, now):
    values = np.array([[1.5, -2.0, np.inf], [0.0, 1024.0, np.nan]])
    fitted = match_arrays(arrays(w=values.astype(before)), WANTED | {"w": ((2, 3), now)})["w"]
    assert fitted.dtype == np.dtype(now)
    np.testing.assert_array_equal(fitted.astype(np.float64), values)


@pytest.mark.parametrize(
    ("changed", "wanted", "problem"),
    [
        ({"w": None}, {}, "w is missing"),
        ({"v": np.zeros(1)}, {}, "v is unknown"),
        ({"w": np.zeros((3, 2))}, {}, "w has the shape [3, 2] instead of [2, 3]"),
        ({"count": np.array(7.0)}, {}, "count is float64 instead of int64"),
        ({"count": np.array(7, np.int32)}, {}, "count is int32 instead of int64"),
        (
            {"w": np.full((2, 3), 1e5, np.float32)},
            {"w": ((2, 3), "float16")},
            "w has values too large for float16",
        ),
    ],
)
def test_an_array_that_does_not_match_is_refused_by_name(changed, wanted, problem):
    with pytest.raises(IncompatibleCheckpoint) as caught:
        match_arrays(arrays(**changed), WANTED | wanted)
    sentence = f"The checkpoint does not match this job: {problem}."
    assert str(caught.value) == sentence


def test_the_message_names_the_first_arrays_and_counts_the_rest():
    with pytest.raises(IncompatibleCheckpoint, match=r"w7 is missing and 12 more\.$"):
        match_arrays({}, {f"w{number}": ((), "float32") for number in range(20)})


@pytest.mark.parametrize(
    ("saved_names", "expected_names"),
    [
        (["h/conv_1", "h/conv_2"], ["h/conv_2", "h/conv_1"]),  # equal names, in another order
        (["h/conv_1", "h/conv_2"], ["h/conv_7", "h/conv_8"]),  # Keras has counted on
        (["h/conv_1", "h/conv_2"], ["h/conv_2", "h/conv_3"]),  # and one name occurs by chance
    ],
)
def test_like_named_arrays_are_told_apart(saved_names, expected_names):
    values = {name: np.float32(number) for number, name in enumerate(saved_names)}
    matched = match_arrays(values, dict.fromkeys(expected_names, ((), "float32")))
    same = set(saved_names) == set(expected_names)
    expected = values if same else dict(zip(expected_names, values.values(), strict=True))
    assert matched == expected
