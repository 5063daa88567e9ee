import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ampclient import ScaleChanges, SkippedSteps, StepSample
from ampclient._job.view import JobView
from ampclient.progress.curve import Curve, curve_of, skips_in
from ampclient.progress.dot_canvas import ASCII_DOTS, BRAILLE_DOTS
from ampclient.progress.job_progress import distinct_names
from ampclient.progress.plots import LABEL_WIDTH, PlotSize, plot_size, plots
from tests.tables import every_row

NO_CHANGES = ScaleChanges(0, *[np.array([])] * 3, ())


def sample_of(loss, scale=None, skipped=(), **columns):
    """A sample with one point per step."""
    count = len(loss)
    skips = np.isin(np.arange(count), skipped)
    series = {"loss": loss, "loss_scale": [1024.0] * count if scale is None else scale, **columns}
    arrays = {name: np.asarray(values, np.float32) for name, values in series.items()}
    columns = {"step": np.arange(count), "skipped": skips, **arrays}
    skipped_steps = SkippedSteps(len(skipped), np.asarray(skipped))
    return StepSample(columns, 1, skipped_steps, NO_CHANGES, ())


def drawn(sample, cells=40, rows=4, style=BRAILLE_DOTS):
    return [line.plain for line in plots(sample, PlotSize(cells, rows), style)]


@pytest.mark.parametrize("style", [BRAILLE_DOTS, ASCII_DOTS])
def test_each_dot_is_drawn_at_its_position(style):
    dots = np.zeros((style.dots_high, style.dots_wide * 2), bool)
    assert style.lines(dots) == ["  "]
    dots[0, 0] = dots[-1, -1] = True
    assert style.lines(dots) == ["⠁⢀" if style is BRAILLE_DOTS else "'."]


@given(st.integers(2, 400), st.data())
def test_a_peak_of_one_step_and_a_skip_are_visible_at_any_width(count, data):
    position = data.draw(st.integers(0, count - 1))
    width = data.draw(st.integers(1, 120))
    loss = np.ones(count)
    loss[position] = 5.0
    sample = sample_of(loss, skipped=[position])
    assert curve_of(sample, "loss", width).dots(16)[0].any()
    assert skips_in(sample, width).any()


def test_points_of_several_steps_are_drawn_from_minimum_to_maximum():
    columns = {"step": [0, 8], "skipped": [0, 3], "count": [8, 8], "loss.min": [1, 1]}
    columns |= {"loss.max": [1, 9], "loss_scale.min": [2, 1], "loss_scale.max": [2, 2]}
    arrays = {name: np.array(values) for name, values in columns.items()}
    sample = StepSample(arrays, 8, SkippedSteps(3, np.array([9])), NO_CHANGES, ())
    dots = curve_of(sample, "loss", 2).dots(4)
    assert dots[:, 1].all()
    assert dots[:, 0].tolist() == [False, False, False, True]
    lines = drawn(sample, cells=16, rows=1)
    assert lines[-1] == "skips         3         ××××××××"
    assert drawn(sample, cells=16)[-1].split() == ["step", "0", "15"]


def test_a_curve_is_connected_across_jumps():
    dots = Curve(np.array([0.0, 15.0]), np.array([0.0, 15.0]), is_log=False).dots(16)
    assert dots.any(axis=1).all()


def test_nan_leaves_a_gap_and_infinity_is_drawn_at_the_edge():
    dots = curve_of(sample_of([1, math.nan, 2, math.inf, 1]), "loss", 5, is_log=False).dots(4)
    assert not dots[:, 1].any()
    assert dots[0, 3]
    assert not curve_of(sample_of([math.nan, math.nan]), "loss", 2).dots(4).any()


def test_a_loss_over_a_wide_range_has_a_labelled_logarithmic_axis():
    assert drawn(sample_of([100.0, 10.0, 1.0]))[1].startswith("(log)")
    assert not drawn(sample_of([2.0, 1.0]))[1].startswith("(log)")
    assert not drawn(sample_of([100.0, -1.0]))[1].startswith("(log)")


def test_axes_are_labelled_at_both_ends_and_a_flat_line_once():
    lines = drawn(sample_of([2.5, 0.5], [65536.0, 32768.0]))
    assert [line[:LABEL_WIDTH].split() for line in lines] == [
        ["loss", "2.5"], [], [], ["0.5"], ["scale", "2^16"], [], [], ["2^15"], ["step"]
    ]  # fmt: skip
    flat = [line[:LABEL_WIDTH].split() for line in drawn(sample_of([1.0, 1.0]))]
    assert flat[:4] == [["loss"], [], ["1"], []]


def test_a_skipped_step_is_red_in_every_curve():
    lines = plots(sample_of([1.0, 2.0], skipped=[1]), PlotSize(20, 1), BRAILLE_DOTS)
    stream = io.StringIO()
    Console(file=stream, force_terminal=True, color_system="standard", width=60).print(*lines)
    assert stream.getvalue().count("\x1b[1;31m") >= 3


@every_row(
    ("width", "height", "jobs", "rows"),
    [
        (80, 24, 1, 4),
        (80, 9, 1, 3),
        (80, 3, 1, 1),
        (80, 2, 1, None),
        (80, 24, 4, 1),
        (30, 24, 1, None),
    ],
)
def test_the_height_of_plots_fits_the_terminal(width, height, jobs, rows):
    size = plot_size(width, height, jobs)
    assert (size and size.rows) == rows
    if size:
        assert jobs * (size.lines + (jobs > 1)) <= height
        lines = drawn(sample_of([1.0, 2.0], skipped=[0]), size.cells, size.rows)
        assert len(lines) <= size.lines
        assert max(map(len, lines)) < width


def test_names_are_distinguished_by_their_ends_or_by_ids(server):
    def named(*names):
        jobs = [server.add_job(f"{n}", name=name) for n, name in enumerate(names)]
        return list(distinct_names([JobView.from_json(job) for job in jobs]).values())

    assert named("cnn float32 1", "cnn float32 2") == ["1", "2"]
    assert named("cnn", "cnn float16") == ["cnn", "cnn float16"]
    assert named("same", "same") == ["same 0", "same 1"]
    assert named("alone here") == ["alone here"]
