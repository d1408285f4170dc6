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


def frames(chart: figures.Chart) -> list:
    """The frames of a chart."""
    return list(chart.figure.frames)  # pyright: ignore[reportAttributeAccessIssue]


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


def test_the_running_total_grows_a_microbatch_a_frame():
    update = scalar(xs="1,2,3,4", ys="0", microbatches=4).at(0)
    chart = figures.accumulator(update)
    told = [frame.layout.meta for frame in frames(chart)]
    assert [entry["shown"] for entry in told] == [1, 2, 3, 4]
    assert [frame.name for frame in frames(chart)] == [f"after microbatch {k} of 4" for k in (1, 2, 3, 4)]
    assert told[1]["summary"] == (
        "Microbatch 2 held 1 example and added 8: the total is 10. Used now, the gradient would be off by 83.3 %."
    )  # 10 / 4 = 2.5 where 15 is right
    assert told[3]["summary"] == chart.summary == "2 → 10 → 28 → 60; the full-batch sum is 60."
    low, high = chart.figure.layout.yaxis.range
    assert low <= 0 and high >= 60
    assert not frames(figures.accumulator(scalar(microbatches=1).at(0)))


def test_many_microbatches_are_not_sent_as_often_as_there_are_frames():
    settings = Settings(task="hand", gradients="/".join(["1"] * 600), steps=1, device_reduction="global")
    chart = figures.accumulator(fit(settings).at(0))
    assert len(frames(chart)) == 512 and frames(chart)[-1].layout.meta["shown"] == 600
    assert len(str(chart.figure.to_json())) < 300_000


def test_totals_that_are_not_finite_leave_the_axis_to_itself():
    chart = figures.accumulator(fit(Settings(task="hand", gradients="nan/1")).at(0))
    assert chart.figure.layout.yaxis.range is None
    assert "would be not finite" in frames(chart)[0].layout.meta["summary"]


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


def test_the_stages_are_frames_with_formula_numbers_and_sentence():
    run = scalar(clip="global_norm", clip_threshold=3)
    chart = figures.stages(run.at(0), run.settings)
    assert [frame.name for frame in frames(chart)] == [
        "microbatch gradients", "accumulate", "reduce over microbatches", "clip (global_norm)", "optimizer (sgd)",
        "learning rate", "update",
    ]  # fmt: skip
    assert chart.figure.layout.meta["start"] == 0 and chart.figure.layout.meta["every"] > 1000
    clip = frames(chart)[3]
    assert clip.layout.meta["formula"] == "g ← g · min(1, c / |g|)\ng = 15 · min(1, 3 / 15) = 3"
    trail, coming, done, now, way, before, after = clip.data
    np.testing.assert_allclose(now.x, [3], rtol=1e-6)
    np.testing.assert_allclose(done.x, [10, 50, 60, 15], rtol=1e-6)
    np.testing.assert_allclose(coming.x, [3, 0.03, 0.97], rtol=1e-6)
    assert list(done.y) == [0, 0, 1, 2] and list(now.y) == [3] and list(coming.y) == [4, 5, 6]
    assert all(symbol.endswith("-open") for symbol in coming.marker.symbol)
    assert not any(symbol.endswith("-open") for symbol in [*done.marker.symbol, *now.marker.symbol])
    np.testing.assert_allclose(trail.x, [60, 15, 3], rtol=1e-6)
    np.testing.assert_allclose(way.x, [15, 3, np.nan], rtol=1e-6)
    assert (list(before.x), list(before.y), list(after.y)) == ([15], [0], [0])
    texts = [label.text for label in clip.layout.annotations]
    assert texts[:5] == [
        "microbatch gradients: 10 to 50", "accumulate: 60", "reduce over microbatches: 15",
        "<b>clip (global_norm): 3</b>", "optimizer (sgd)",
    ]  # fmt: skip
    assert texts[7:] == ["w: 15 → 3"]
    low, high = clip.layout.xaxis2.range
    assert low < 0 and high > 15


def test_stages_of_devices_have_a_dot_for_each_until_they_are_reduced():
    run = fit(Settings(task="hand", gradients="4/2,2,2", devices=2, steps=1))
    chart = figures.stages(run.at(0), run.settings)
    assert [list(frame.data[3].x) for frame in frames(chart)[:4]] == [[4, 6], [4, 6], [4, 2], [2.5]]
    assert "a dot for each device" in chart.read


def test_stages_show_the_eight_largest_coordinates_and_names_as_text():
    run = fit(Settings(task="linear", steps=1))
    opened = run.at(0)
    largest = np.sort(np.argsort(-np.abs(opened.reference.values))[:8])
    (frame,) = frames(figures.stages(opened, run.settings))[2:3]
    np.testing.assert_array_equal(frame.data[6].x, opened.stages["reduce_microbatches"].values[largest])
    renamed = opened._replace(coordinates=["<a href='x'>" * 9, *opened.coordinates[1:]])
    drawn = frames(figures.stages(renamed, run.settings))[0].layout.annotations
    names = [label.text.partition(":")[0] for label in drawn if label.yref == "y2"]
    assert not any("<" in name for name in names)
    assert largest[0] == 0 and "&lt;a href" in names[0] and "…" in names[0]


def test_stages_mark_what_is_zero_on_a_logarithm_and_what_is_not_finite():
    skipped = fit(Settings(**{**SKIPPING, "steps": 1}))
    last = frames(figures.stages(skipped.at(0), skipped.settings))[-1]
    marks = dict(zip(last.data[2].y, last.data[2].marker.symbol, strict=True))
    assert marks[0] == "x" and np.isfinite(last.data[2].x).all() and len(last.data[0].x) == 1
    assert "not finite" in figures.stages(skipped.at(0), skipped.settings).read
    still = fit(Settings(task="scalar", learning_rate=0, steps=1))
    last = frames(figures.stages(still.at(0), still.settings))[-1]
    marks = dict(zip(last.data[2].y, last.data[2].marker.symbol, strict=True))
    assert (marks[4], marks[2]) == ("triangle-left", "circle")
    assert last.data[3].marker.symbol == ("square",)
    assert "A triangle at the left is 0" in figures.stages(still.at(0), still.settings).read
