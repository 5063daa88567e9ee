"""`ampctl explain` queues an explanation once, and prints its answer for reading."""

import pytest

COUNTS = {"inf": 0, "nan": 0, "largest": 0.5}


def layer(number, **more):
    return {
        "network": "model",
        "layer": f"dense_{number}",
        "kind": "Dense",
        "dtype": "float16",
        "forward": COUNTS,
        "backward": COUNTS,
        **more,
    }


ANSWER = {
    "step": 7,
    "kind": "skip",
    "attribution": "operation",
    "sentence": "Layer dense_19 overflows in float16 at every loss scale.",
    "advice": "Keep it in float32.",
    "values": {"loss": 2.5, "grad_norm": "NaN", "loss_scale": 1024.0, "learning_rate": 0.1},
    "batch": {"epoch": 0, "batch": 7},
    "repeat": {"equal_bits": True, "differences": []},
    "layers": [layer(n) for n in range(19)]
    + [layer(19, forward={"inf": 3, "nan": 0, "largest": 6e4}, is_first=True), layer(20)],
    "layers_left_out": 0,
    "variables": [],
    "variables_left_out": 0,
    "tried": [
        {
            "dtype": "float16",
            "loss_scale": 1024.0,
            "finite_loss": False,
            "finite_gradients": False,
            "is_own": True,
        },
        {"dtype": "float32", "loss_scale": 1.0, "finite_loss": True, "finite_gradients": True},
    ],
    "comparison": {
        "own": {"loss": 2.5, "grad_norm": 1.0},
        "others": None,
        "other_batches": 0,
        "at_start": {"loss": 2.4, "grad_norm": 1.0},
    },
    "examples": {"unusual": 0, "total": 32, "shown": []},
}


@pytest.fixture
def trained(server):
    server.add_job("a", state="succeeded", step=100)
    server.answer = ANSWER
    return server


def test_the_cost_is_stated_and_the_id_of_the_new_job_printed(ampctl, trained):
    result = ampctl("explain", "a", "7")
    assert (result.code, result.out) == (0, "000001\n")
    assert "Replaying 7 steps from the first step, about 90 s" in result.err
    assert "explains      step 7 of a" in ampctl("get", "000001").out


def test_a_second_command_asks_for_the_same_explanation(ampctl, trained):
    assert ampctl("explain", "a", "7").out == ampctl("explain", "a", "7").out
    assert ampctl("explain", "a", "8").out == "000002\n"
    assert ampctl("explain", "a", "7", "--again").out == "000003\n"


def test_the_answer_is_text_in_which_long_lists_are_folded(ampctl, trained):
    ampctl("explain", "a", "7")
    trained.jobs["000001"]["state"] = "succeeded"
    lines = ampctl("explain", "a", "7", "--wait").out.splitlines()
    assert lines[0] == "Step 7 (epoch 0, batch 7): skipped"
    assert "Due to: an operation" in lines
    assert "What to do: Keep it in float32." in lines
    [first] = [line for line in lines if line.startswith("  * ")]
    assert first.startswith("  * dense_19 (Dense, float16): output 3 inf")
    assert "  … 15 layers before" in lines
    assert len([line for line in lines if "dense_" in line and "Dense" in line]) == 6
    assert "  float32: gradients finite" in lines
    everything = ampctl("explain", "a", "7", "--all").out
    assert len([line for line in everything.splitlines() if "(Dense" in line]) == 21


def test_json_is_the_whole_answer(ampctl, trained):
    ampctl("explain", "a", "7")
    trained.jobs["000001"]["state"] = "succeeded"
    assert ampctl("explain", "a", "7", "--json").json() == ANSWER


def test_a_failed_explanation_says_why_and_fails(ampctl, trained):
    trained.add_job("b", state="running", step=9)
    ampctl("explain", "b", "3")
    trained.change("000002")
    trained.change("000002", state="failed", message="There is no such file.")
    result = ampctl("explain", "b", "3", "--wait")
    assert (result.code, result.out) == (1, "")
    assert "000002 failed: There is no such file." in result.err
