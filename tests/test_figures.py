"""Records -> charts: what is drawn, at which heights, and what the words say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from app import figures
from app.figures import base, update
from lab import Record, Settings, fit
from lab.findings import of_run
from lab.memory import Memory
from lab.spelling import look as spelling_of

pytestmark = pytest.mark.page


def traces(chart: figures.Chart) -> list:
    """The traces of a chart, as Plotly keeps them."""
    return list(chart.figure.data)  # pyright: ignore[reportAttributeAccessIssue]


def scalar(**keys):
    return fit(Settings(task="scalar", **keys))


@given(arrays(np.float32, st.integers(1, 6000), elements=st.floats(-1e6, 1e6, width=32) | st.just(float("nan"))))
def test_thinning_keeps_the_extremes_and_the_ends(y):
    at = base.thinned(y)
    assert len(at) <= base.POINTS + 2
    assert np.all(np.diff(at) > 0)
    assert at[0] == 0
    assert at[-1] == len(y) - 1
    if np.isfinite(y).any():
        assert np.nanmax(y[at]) == np.nanmax(y)
        assert np.nanmin(y[at]) == np.nanmin(y)


def test_a_short_curve_is_drawn_point_by_point():
    assert base.thinned(np.zeros(base.POINTS)).tolist() == list(range(base.POINTS))


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 5], None), ([1, 11], "log"), ([0, 100], None), ([-1, 100], None), ([np.nan], None), ([np.nan, 1, 50], "log")],
)
def test_an_axis_is_logarithmic_where_values_are_positive_and_span_a_decade(values, kind):
    assert base.logarithmic(np.array(values, float)).get("type") == kind


def test_labels_too_close_to_tell_apart_share_a_place():
    rungs = update.ladder({"a": 10.0, "b": 10.0, "c": 12.0, "d": 60.0, "e": float("inf")}, span=60)
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
    axis = base.logarithmic(np.array([0.2, 2.1]))
    assert axis["tickvals"] == pytest.approx([0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50])
    assert axis["ticktext"][:4] == ["0.1", "0.2", "0.5", "1"]


def test_charts_do_not_share_state():
    record = Record({name: np.ones(3) for name in ("step", "loss", "learning_rate")} | {"skipped": np.zeros(3, bool)})
    first = figures.learning_rate(Settings(), record, 3).figure.to_json()
    figures.loss(record, Record({"step": np.zeros(0, int)}), 3)
    assert figures.learning_rate(Settings(), record, 3).figure.to_json() == first


SKIPPING = {
    "task": "hand", "gradients": "10", "compute_dtype": "float16", "loss_scaling": "dynamic", "growth_interval": 4,
    "steps": 12,
}  # fmt: skip


def test_skipped_updates_are_marked_on_every_curve_of_the_run():
    run = fit(Settings(**SKIPPING))
    plain = fit(run.settings.replace(loss_scaling="none"))
    for chart in (
        figures.loss(run.record, run.held_out, 12),
        figures.loss_scale(run.record, 12),
        figures.divergence(run.record, plain.record, 12),
    ):
        (marks,) = [trace for trace in traces(chart) if trace.name == "skipped"]
        assert list(marks.x) == [0, 1, 2, 7]
    scale = figures.loss_scale(run.record, 12)
    assert list(traces(scale)[0].y) == run.record["loss_scale"].tolist()
    assert scale.summary == "From 2^15 to 2^12; 4 updates skipped."
    assert not [trace for trace in traces(figures.loss(plain.record, plain.held_out, 12)) if trace.name == "skipped"]


def test_a_comparison_with_a_run_that_breaks_says_from_where():
    broken = fit(Settings(param_dtype="float16", steps=5)).record
    chart = figures.divergence(fit(Settings(steps=5)).record, broken, 5)
    assert chart.summary == "They part at update 0; from update 1 on a loss is not a finite number."


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1024, 10)])
def test_the_histogram_moves_with_the_loss_scale(scale, shift):
    gradients = [1e-9, 1e-3, 1.5, 900]
    text = "/".join(map(str, gradients))
    scaling = {"loss_scaling": "static", "loss_scale": scale} if scale > 1 else {}
    run = fit(Settings(task="hand", gradients=text, compute_dtype="float16", steps=1, **scaling))
    chart = figures.gradient_range(run.census(0))
    bars = traces(chart)[-1]
    drawn = {float(x) - 0.5: float(y) for x, y in zip(bars.x, bars.y, strict=True) if y}
    assert drawn == {float(np.floor(np.log2(g)) + shift): 25 for g in gradients}
    zero, top = np.log2(2.0**-25), np.log2(65504)
    colours = [c for c, y in zip(bars.marker.color, bars.y, strict=True) if y]
    assert [c == "#0072B2" for c in colours] == [zero <= np.log2(g) + shift <= top for g in sorted(gradients)]
    assert len(traces(chart)) == (1 if shift == 0 else 2)


def test_rounding_is_drawn_for_every_accumulator_with_the_chosen_one_in_blue():
    run = fit(Settings(accumulator_dtype="bfloat16", steps=1))
    chart = figures.rounding(run.rounding(0), "bfloat16", 8)
    assert {trace.name: trace.line.color for trace in traces(chart)} == {
        "float32": "#7F7F7F", "float16": "#7F7F7F", "bfloat16": "#0072B2",
    }  # fmt: skip
    assert list(traces(chart)[0].x) == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_what_is_not_finite_is_not_drawn_as_a_histogram():
    chart = figures.gradient_range(fit(Settings(task="hand", gradients="nan", steps=1)).census(0))
    assert traces(chart) == []
    assert "not finite" in chart.summary


def test_devices_are_drawn_as_they_are():
    run = fit(Settings(task="hand", gradients="4/2,2,2", devices=2, steps=3, device_reduction="none"))
    opened = run.at(0)
    bars = traces(figures.device_gradients(opened))[0]
    assert list(bars.y) == [4, 2]
    assert "all together 2.5" in figures.device_gradients(opened).summary
    heat = traces(figures.device_agreement(opened))[0]
    assert np.array(heat.z).tolist() == [[1, 1], [1, 1]]
    losses = figures.device_losses(opened)
    assert list(traces(losses)[0].y) == [4, 2]
    assert "the batch is 2.5, and the mean of what they say 3" in losses.summary
    assert np.array(traces(figures.dealt(opened, "contiguous"))[0].z).tolist() == [[1], [3]]
    drift = figures.spread(run.record, 3)
    assert list(traces(drift)[0].y) == run.record["spread"].tolist()
    together = figures.spread(fit(run.settings.replace(device_reduction="global")).record, 3)
    assert together.summary.startswith("Exactly 0 at every update")
    assert "device by device" in figures.accumulator(opened).figure.layout.xaxis.title.text


def test_a_strided_deal_is_drawn_and_told_as_it_is():
    run = fit(Settings(task="linear", batch_size=10, devices=2, microbatches=2, deal="strided", steps=1))
    chart = figures.dealt(run.at(0), "strided")
    assert np.array(traces(chart)[0].z).tolist() == [[3, 3], [2, 2]]
    assert traces(chart)[0].customdata[1, 0] == "every 4th from 2 on" and "like cards" in chart.read
    assert any("2 microbatches of 3, then 2 microbatches of 2;" in found.text for found in of_run(run))


def test_letters_are_coloured_by_their_loss_and_tokens_counted():
    run = fit(Settings(task="names", steps=2, batch_size=32, microbatches=4))
    spelling = spelling_of(run, 2)
    chart = figures.letters(spelling)
    (heat,) = traces(chart)
    assert "".join(heat.text[0]) == spelling.read[0]
    known = spelling.losses[np.isfinite(spelling.losses)]
    assert len(known) == sum(map(len, spelling.read))
    assert chart.summary == f"{known.mean():.3g} per token on average."
    update = run.at(0)
    (bars,) = traces(figures.tokens(update))
    assert list(bars.y) == [m.weight for m in update.microbatches] and sum(bars.y) > 32


def test_memory_is_stacked_from_what_stays_to_what_the_cut_shrinks():
    found = Memory(np.array([1, 8]), np.array([3 * 2**20, 2**20]), 2**19, 2**20, 2**18)
    chart = figures.memory(found, 8)
    assert [trace.name for trace in traces(chart)] == [
        "parameters and optimizer", "examples of the batch", "accumulator", "temporary",
    ]  # fmt: skip
    assert list(np.sum([trace.y for trace in traces(chart)], axis=0)) == [4.25, 2.25]
    assert "3 MiB at once, 1 MiB in 8 microbatches: 66.7 % less" in chart.summary


def test_a_compared_run_lies_over_the_microscope():
    ones = {"task": "hand", "gradients": "/".join(["1"] * 8), "steps": 1}
    mine, other = fit(Settings(**ones)), fit(Settings(**ones, reduction="mean_of_means"))
    line = traces(figures.accumulator(mine.at(0), other.at(0)))[-1]
    assert list(line.x) == list(line.y) == list(range(1, 9))
    wide = fit(Settings(task="scalar", microbatches=1, steps=1)).at(0)
    line = traces(figures.accumulator(fit(Settings(task="scalar", microbatches=4, steps=1)).at(0), wide))[-1]
    assert (list(line.x), list(line.y)) == ([4], [60])
    scaled = fit(Settings(**ones, compute_dtype="float16", loss_scaling="static", loss_scale=256)).census(0)
    plain = fit(Settings(**ones, compute_dtype="float16")).census(0)
    line = traces(figures.gradient_range(plain, scaled))[-1]
    assert float(line.x[np.argmax(line.y)]) == 8.5
