"""Names and values of columns, from the rows of a file through the saved model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.data.preparation import preprocessing
from ampcore.data.preparation.preprocessing import ColumnPlan, PreparedInputs
from ampdata import Column
from ampspec.data.preprocessing import Preprocessing, Tokens
from tests.tables import every_row

NAMES = [
    "petal length (cm)",
    "od280/od315_of_diluted_wines",
    "image/encoded",
    "Größe [m²]",
    "% change",
    "#",
    "a:b",
    'the "best" one',
    "it's",
    "価格",
    "tab\tand\nline",
    "back\\slash",
    "",
    " ",
    "0",
    "_",
    "{x}",
    "preprocessing",
    "network",
    "features",
    "features_joined",
    "column_0",
    "column_1_normalization",
    "input_0",
    "keras_tensor",
    "A",
    "a" * 250,
    "🦜",
]


def prepared(rows, options):
    """The prepared inputs of columns that are joined, by name, and their values."""
    plans = []
    for name, values in rows.items():
        is_text = values.dtype == object
        column = Column(values.shape[1:], "string" if is_text else values.dtype.name)
        plans.append(ColumnPlan(name, column, options[name]))
    inputs = PreparedInputs({"features": plans}, lambda names: [{n: rows[n] for n in names}], "it")
    return inputs, inputs(rows)


def loaded(inputs, folder, name="network"):
    """The saved model with a network in front of which the inputs are, loaded again."""
    outputs = inputs.model.output
    network_input = keras.Input(outputs.shape[1:], dtype=outputs.dtype)
    network = keras.Model(network_input, keras.layers.Identity()(network_input), name=name)
    inputs.in_front_of(network).save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


def raw(rows):
    """The rows as a program gives them to a saved model."""
    return {name: tf.constant(values.reshape(len(values), 1)) for name, values in rows.items()}


def check_names(names, folder):
    """Columns with these names, and the saved model called by them."""
    numbers = np.random.default_rng(0).normal(size=(8, len(names)))
    rows = {name: numbers[:, place] for place, name in enumerate(names)}
    inputs, values = prepared(rows, dict.fromkeys(names, Preprocessing(normalize=True)))
    model = loaded(inputs, folder)
    backwards = dict(reversed(raw(rows).items()))
    np.testing.assert_allclose(model(backwards), values, atol=1e-6)
    return model, rows, values


# Keras warns of a name that no layer can have, when it loads the model, too.
@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
@every_row("name", NAMES)
def test_a_saved_model_takes_columns_of_any_name(name, tmp_path):
    check_names(["a", name], tmp_path)


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
def test_a_saved_model_takes_columns_of_all_these_names(tmp_path):
    model, rows, values = check_names(NAMES, tmp_path)
    np.testing.assert_allclose(model.predict(raw(rows), verbose=0), values, atol=1e-6)
    signature = {
        name: keras.InputSpec(shape=(None, 1), dtype="float32", name=f"column_{place}")
        for place, name in enumerate(NAMES)
    }
    model.export(tmp_path / "exported", verbose=False, input_signature=[signature])


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
@pytest.mark.filterwarnings("ignore:[^$]*The structure of `inputs` doesn't match")
@every_row("name", NAMES[:3])
def test_a_saved_model_with_one_input_takes_an_array(name, tmp_path):
    inputs, values = prepared({name: np.arange(4.0)}, {name: Preprocessing(normalize=True)})
    model = loaded(inputs, tmp_path)
    np.testing.assert_allclose(model(np.arange(4.0)[:, None]), values, atol=1e-6)


def test_input_layers_have_the_names_and_the_order_of_the_columns(tmp_path):
    names = ["petal length (cm)", "Größe", "a"]
    rows = {name: np.arange(4.0) for name in names}
    inputs, _ = prepared(rows, dict.fromkeys(names, Preprocessing()))
    assert [tensor.name for tensor in loaded(inputs, tmp_path).inputs] == names


LARGE = [
    ("epoch milliseconds", 1_700_000_000_000 + np.arange(256) ** 2),
    ("epoch nanoseconds", 1_700_000_000_000_000_000 + np.arange(256) ** 3),
    ("half milliseconds", 1.7e12 + np.arange(256) / 2),
    ("dates", 20_230_101 + np.arange(256) * 3),
    ("julian days", 2_460_000.5 + np.arange(256) / 1440),
    ("altitudes of one place", 8848.86 + np.arange(256) * 1e-5),
    ("small numbers", np.arange(256) / 7),
]


@every_row(("name", "values"), LARGE)
def test_normalized_values_keep_what_the_file_distinguishes(name, values, tmp_path):
    inputs, prepared_values = prepared({"t": values}, {"t": Preprocessing(normalize=True)})
    exact = (values - values[0]).astype(np.float64)
    expected = (exact - exact.mean()) / exact.std()
    np.testing.assert_allclose(prepared_values[:, 0], expected, atol=1e-4)
    saved = loaded(inputs, tmp_path)
    np.testing.assert_allclose(saved(tf.constant(values[:, None]))[:, 0], expected, atol=1e-4)


def test_every_channel_of_an_array_has_its_own_mean(tmp_path):
    values = np.stack([1.7e12 + np.arange(64.0), np.arange(64.0) / 7], axis=1)
    inputs, result = prepared({"t": values}, {"t": Preprocessing(normalize=True)})
    np.testing.assert_allclose(result[:, 0], result[:, 1], atol=1e-4)
    np.testing.assert_allclose(loaded(inputs, tmp_path)(values), result, atol=1e-6)


def test_a_missing_large_number_is_the_mean_or_zero():
    values = 1.7e12 + np.arange(64)
    values[::4] = np.nan
    for missing, expected in (("mean", 0.0), ("zero", -1.7e12 / np.nanstd(values))):
        options = Preprocessing(normalize=True, missing=missing)
        _, result = prepared({"t": values}, {"t": options})
        np.testing.assert_allclose(result[0, 0], expected, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(np.nanstd(result[1::4]), 1, rtol=0.05)


def test_small_numbers_are_float32_in_the_saved_model_and_large_ones_are_not():
    rows = {"small": np.arange(8.0), "large": 1e12 + np.arange(8.0)}
    inputs, _ = prepared(rows, dict.fromkeys(rows, Preprocessing(normalize=True)))
    assert [tensor.dtype for tensor in inputs.raw.values()] == ["float32", "float64"]


CATEGORIES = [
    np.array([-1, 3, 5, -1]),
    np.array([3.0, np.nan, 7.0, 3.0]),
    np.array([2.0**40, np.nan, 2.0**40 + 1, -1.0]),
    np.array(["[UNK]", "Cook", "[unk]", "Cook"], object),
    np.array(["", "A", "a", "A"], object),
    np.array([True, False, True, True]),
]


@every_row("values", CATEGORIES)
@pytest.mark.parametrize("how", ["integer", "one_hot"])
def test_every_value_is_a_category_of_its_own(values, how, tmp_path):
    inputs, result = prepared({"kind": values}, {"kind": Preprocessing(categories=how)})
    codes = result.reshape(len(values), -1)
    codes = codes[:, 0] if how == "integer" else codes.argmax(axis=1)
    different = {str(value): code for value, code in zip(values, codes, strict=True)}
    assert len(set(different.values())) == len(different)
    assert all((code == 0) == (value == "nan") for value, code in different.items())
    saved = loaded(inputs, tmp_path)(tf.constant(values[:, None]))
    np.testing.assert_array_equal(saved, result)


def words(texts, **options):
    """The prepared inputs of texts, and their numbers."""
    rows = {"text": np.array(texts, object)}
    return prepared(rows, {"text": Preprocessing(tokens=Tokens(length=4, **options))})


SPELLINGS = [
    ("Über", "über"),
    ("МОСКВА", "москва"),
    ("École", "ÉCOLE"),
    ("Ärger!", "ärger"),
    ("ΑΘΗΝΑ", "αθηνα"),
    ("ÎLE-de", "île-de"),
    ("İzmir", "İZMIR"),
    ("GROẞ", "groß"),
]


@every_row(("first", "second"), SPELLINGS)
def test_capital_letters_of_every_alphabet_are_small_ones(first, second, tmp_path):
    inputs, result = words([first, second, "other"])
    assert result[0].tolist() == result[1].tolist()
    assert result[0][0] > 1
    assert result[2].tolist() != result[0].tolist()
    saved = loaded(inputs, tmp_path)
    np.testing.assert_array_equal(saved(tf.constant([[first], [second], ["other"]])), result)


def test_tokens_are_counted_in_all_parts_of_many_texts(monkeypatch):
    monkeypatch.setattr(preprocessing, "TEXTS", 2)
    _, result = words(["b a", "c", "", "b", "a b"], max_tokens=4)
    assert result[:, 0].tolist() == [3, 1, 0, 3, 2]


def test_a_word_in_capital_letters_is_known_if_only_small_ones_were_seen():
    inputs, _ = words(["москва река", "école"])
    small = inputs({"text": np.array(["москва école", "река"], object)})
    large = inputs({"text": np.array(["МОСКВА École", "Река"], object)})
    np.testing.assert_array_equal(small, large)
    assert small.max() < inputs.vocabulary["features"]


UNUSUAL = [
    "a\u00a0b",  # Keras does not split at it
    "c\u3000d e",
    "[UNK] f",
    "don't",
    "g—h",
    "1,5 %",
    "\u00adi",
    "नमस्ते दुनिया",
    "你好，世界",
]


@every_row("split", ["words", "characters"])
def test_no_token_of_the_training_rows_is_unknown(split):
    _, result = words([*UNUSUAL, "", None], split=split)
    assert not (result == 1).any()


def test_the_most_frequent_words_are_kept_however_they_are_spelled():
    inputs, result = words(["Über über ÜBER", "selten"], max_tokens=3)
    assert result.tolist() == [[2, 2, 2, 0], [1, 0, 0, 0]]
    assert inputs.vocabulary["features"] == 3


def test_layers_in_keras_have_numbers_for_names():
    inputs, _ = prepared({"a b": np.arange(4.0)}, {"a b": Preprocessing(normalize=True)})
    names = [layer.name for layer in inputs.model.layers]
    assert names == ["column_0", "column_0_normalization"]
