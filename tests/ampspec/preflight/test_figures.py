import pytest

from ampspec.preflight import preflight

SYNTHETIC = {"kind": "synthetic", "shape": [28, 28, 1], "batch_size": 1024}


@pytest.fixture
def figures(job):
    def make(**parts):
        return preflight(job(**{"model": {"kind": "cnn"}, "data": SYNTHETIC} | parts)).figures

    return make


def test_a_step_costs_three_forward_passes_over_the_batch(figures):
    assert figures().flops_per_step == 2 * 3 * 11_992_448 * 1024


def test_the_flops_of_a_step_include_all_accumulated_batches(figures):
    assert figures(train={"accumulate": 4}).flops_per_step == 4 * figures().flops_per_step


def test_a_gan_step_costs_three_generator_and_seven_discriminator_passes(figures):
    products = figures(model={"kind": "gan"}).flops_per_step // (2 * 1024)
    assert products == 3 * 20_540_800 + 7 * 18_033_152


@pytest.mark.parametrize(
    ("precision", "share"),
    [
        ({"policy": "float32"}, 0.0),
        ({"policy": "mixed_bfloat16"}, 1 - 1280 / 11_992_448),
        ({"policy": "O1"}, 1 - 1280 / 11_992_448),
        (
            {
                "policy": "mixed_float16",
                "overrides": [{"layers": "conv", "dtype": "float32"}],
            },
            1_179_648 / 11_992_448,
        ),
        (
            {"policy": "float32", "overrides": [{"layers": "^dense", "dtype": "float16"}]},
            1_179_648 / 11_992_448,
        ),
    ],
)
def test_the_share_in_16_bit_follows_the_policy_and_the_overrides(figures, precision, share):
    assert figures(precision=precision).share_in_16_bit == pytest.approx(share)


@pytest.mark.parametrize(
    ("overrides", "share"),
    [
        ([], 1 - 1280 / 11_992_448),
        (
            [{"layers": "^dense", "dtype": "float32", "roles": ["weight_gradient"]}],
            1 - (1280 + 1_179_648 / 3) / 11_992_448,
        ),
    ],
)
def test_the_share_in_float8_counts_products_by_role(figures, overrides, share):
    estimate = figures(precision={"policy": "mixed_float8", "overrides": overrides})
    assert estimate.share_in_8_bit == pytest.approx(share)
    assert estimate.share_in_16_bit == pytest.approx(1 - 1280 / 11_992_448)


def test_weights_of_float8_products_are_cast_to_8_bits(figures):
    memory = figures(precision={"policy": "mixed_float8"}).memory["mixed_float8"]
    assert memory.casts == 1_199_882 - 1290


def test_mixed_precision_halves_the_activations_and_casts_the_weights(figures):
    mixed = figures(precision={"policy": "mixed_float16"})
    before, after = mixed.memory["float32"], mixed.memory["mixed_float16"]
    assert before.weights == after.weights == 4 * 1_199_882
    assert after.casts == 2 * (1_199_882 - 1290)
    assert after.activations == pytest.approx(before.activations / 2, rel=0.01)
    assert after.total < before.total


def test_weights_in_16_bits_take_half_the_memory_and_their_slots_do_not(figures):
    pure = figures(precision={"policy": "bfloat16"}).memory["bfloat16"]
    assert pure.weights == 2 * (1_199_882 - 1290) + 4 * 1290
    assert (pure.casts, pure.optimizer) == (0, 2 * 4 * 1_199_882)


@pytest.mark.parametrize(
    ("optimizer", "numbers"),
    [
        ({"kind": "sgd"}, 0),
        ({"kind": "sgd", "momentum": 0.9}, 1),
        ({"kind": "momentum"}, 1),
        ({"kind": "adam"}, 2),
        ({"kind": "adamw"}, 2),
        ({"kind": "rmsprop"}, 1),
        ({"kind": "rmsprop", "momentum": 0.9}, 2),
    ],
)
def test_the_memory_of_the_optimizer_is_a_number_per_weight_and_slot(
    job, figures, optimizer, numbers
):
    from ampcore import optimizers

    spec = job(optimizer=optimizer).optimizer
    assert len(optimizers.build(spec, total_steps=1).rule.slots) == numbers
    memory = figures(optimizer=optimizer).memory["float32"]
    assert memory.optimizer == numbers * 4 * 1_199_882


def test_a_moving_average_and_accumulation_need_more_memory(figures):
    plain = figures().memory["float32"]
    more = figures(optimizer={"kind": "adam", "ema": 0.99}, train={"accumulate": 2})
    assert (plain.ema, more.memory["float32"].ema) == (0, 4 * 1_199_882)
    assert more.memory["float32"].gradients == 2 * plain.gradients


def test_each_network_is_counted_with_its_own_optimizer(figures):
    model = {"kind": "gan"}
    memory = figures(model=model, optimizers={"generator": {"kind": "sgd"}}).memory["float32"]
    assert memory.optimizer == 2 * 4 * 245_169


def test_the_gradient_of_a_table_has_only_the_rows_that_were_looked_up(figures):
    clicks = {"kind": "synthetic_clicks", "vocabulary": 1_000_000, "batch_size": 1024}
    model = {"kind": "embedding", "vocabulary": 1_000_000, "dim": 64}
    memory = figures(model=model, data=clicks).memory["float32"]
    assert memory.weights > 4 * 64_000_000
    assert memory.gradients == 4 * (1024 * 50 * 64 + 50 * 64 + 1)
