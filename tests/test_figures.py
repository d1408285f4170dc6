"""Records -> charts: what is drawn, at which heights, and what the words say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from app import figures
from lab import Record, Settings, fit

pytestmark = pytest.mark.page


def traces(chart: figures.Chart) -> list:
    """The traces of a chart, as Plotly keeps them."""
    return list(chart.figure.data)  # pyright: ignore[reportAttributeAccessIssue]


def scalar(**keys):
    return fit(Settings(task="scalar", **keys))


@given(arrays(np.float32, st.integers(1, 6000), elements=st.floats(-1e6, 1e6, width=32) | st.just(float("nan"))))
def test_thinning_keeps_the_extremes_and_the_ends(y):
    at = figures.thinned(y)
    assert len(at) <= figures.POINTS + 2
    assert np.all(np.diff(at) > 0)
    assert at[0] == 0
    assert at[-1] == len(y) - 1
    if np.isfinite(y).any():
        assert np.nanmax(y[at]) == np.nanmax(y)
        assert np.nanmin(y[at]) == np.nanmin(y)


def test_a_short_curve_is_drawn_point_by_point():
    assert figures.thinned(np.zeros(figures.POINTS)).tolist() == list(range(figures.POINTS))


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 5], None), ([1, 11], "log"), ([0, 100], None), ([-1, 100], None), ([np.nan], None), ([np.nan, 1, 50], "log")],
)
def test_an_axis_is_logarithmic_where_values_are_positive_and_span_a_decade(values, kind):
    assert figures.logarithmic(np.array(values, float)).get("type") == kind


def test_labels_too_close_to_tell_apart_share_a_place():
    rungs = figures.ladder({"a": 10.0, "b": 10.0, "c": 12.0, "d": 60.0, "e": float("inf")}, span=60)
    assert rungs == [(10.0, "a 10<br>b 10<br>c 12"), (60.0, "d 60")]


def test_loss_of_a_single_update_is_a_dot():
    run = scalar(steps=1)
    (trace,) = traces(figures.loss(run.record, run.held_out, 1))
    assert trace.mode == "markers"
    assert list(trace.y) == [7.5]


def test_the_planned_rate_is_drawn_where_the_schedule_runs_ahead():
    settings = Settings(task="scalar", steps=10, schedule="linear", learning_rate=1, schedule_counts="microbatches")
    run = fit(settings)
    chart = figures.learning_rate(settings, run.record, 10)
    applied, planned = traces(chart)
    np.testing.assert_allclose(applied.y, np.maximum(1 - 2 * np.arange(10) / 10, 0), atol=1e-6)
    np.testing.assert_allclose(planned.y, 1 - np.arange(10) / 10, atol=1e-6)
    assert "ran ahead" in chart.read


def test_the_full_batch_sum_is_left_out_where_it_would_flatten_the_bars():
    update = fit(Settings(batch_size=64, steps=1, reduction="mean_of_means")).at(0)
    chart = figures.accumulator(update)
    assert len(chart.figure.layout.shapes) == 1
    assert "off this scale" in chart.summary


def test_reductions_that_agree_are_dots_and_the_others_crosses():
    (trace,) = traces(figures.reductions(scalar().at(0)))
    assert dict(zip(trace.y, trace.marker.symbol, strict=True)) == {
        "<b>mean</b>": "circle", "mean_of_means": "circle", "sum": "x", "sum_of_means": "x",
    }  # fmt: skip


def test_a_gradient_that_is_not_finite_is_drawn_without_lines():
    update = fit(Settings(task="hand", gradients="nan/1")).at(0)
    assert len(figures.accumulator(update).figure.layout.shapes) == 0
    chart = figures.reductions(update)
    assert len(chart.figure.layout.shapes) == 0
    assert chart.summary == "The full-batch mean is not a finite number."


def test_a_clip_at_the_microbatches_is_named_where_the_bars_show_it():
    update = fit(Settings(task="hand", gradients="2:0/0:2", clip="global_norm", clip_at="microbatch")).at(0)
    chart = figures.accumulator(update)
    assert "clipped gradient sums" in chart.title
    assert "without the clip" in chart.read


def test_an_axis_of_less_than_two_decades_has_its_ticks_in_full():
    axis = figures.logarithmic(np.array([0.2, 2.1]))
    assert axis["tickvals"] == pytest.approx([0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50])
    assert axis["ticktext"][:4] == ["0.1", "0.2", "0.5", "1"]


def test_charts_do_not_share_state():
    record = Record({"step": np.arange(3), "loss": np.ones(3), "learning_rate": np.ones(3)})
    first = figures.learning_rate(Settings(), record, 3).figure.to_json()
    figures.loss(record, Record({"step": np.zeros(0, int)}), 3)
    assert figures.learning_rate(Settings(), record, 3).figure.to_json() == first
