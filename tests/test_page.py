"""The page's script, run without a browser: settings, address, refusals, and what its charts are given."""

import numpy as np
import pytest
from page import address, charts, numbers, opened, said, settled

from lab import Settings, fit

pytestmark = pytest.mark.page


def test_first_visit_shows_the_default_run_that_lab_fit_gives():
    app = opened()
    run = fit(Settings())
    shown = charts(app)
    assert list(shown) == ["loss", "rate", "accumulator", "reductions"]
    assert np.array_equal(numbers(shown["loss"]["figure"]["data"][0]["y"]), run.record["loss"])
    assert np.array_equal(numbers(shown["loss"]["figure"]["data"][1]["y"]), run.held_out["loss"].astype(np.float32))
    assert np.array_equal(numbers(shown["rate"]["figure"]["data"][0]["y"]), run.record["learning_rate"])
    assert f"{100 * run.final['held_out_accuracy']:.3g} %" in said(app)
    assert "256 examples = 8 microbatches x 32" in said(app)
    assert address(app) == {"v": "1"}


def test_scalar_shows_10_then_60_and_the_four_reductions():
    app = opened(task="scalar")
    shown = charts(app)
    assert numbers(shown["accumulator"]["figure"]["data"][0]["y"]).tolist() == [10, 60]
    dots = shown["reductions"]["figure"]["data"][0]
    names = [name.replace("<b>", "").replace("</b>", "") for name in dots["y"]]
    values = dict(zip(names, numbers(dots["x"]), strict=True))
    assert values == {"mean": 15, "mean_of_means": 15, "sum": 60, "sum_of_means": 30}
    assert "10 → 60" in shown["accumulator"]["summary"]
    assert "✓ agrees" in said(app)


def test_lines_of_the_accumulator_stand_at_the_full_batch_sum_and_mean():
    lines = charts(opened(task="scalar"))["accumulator"]["figure"]["layout"]["shapes"]
    assert sorted(line["y0"] for line in lines) == [15, 60]


def test_sum_is_called_out_with_its_factor():
    app = opened(task="scalar", reduction="sum")
    assert "sum is 4 times the full-batch gradient" in said(app)
    assert "✗ off by 300 %" in said(app)


def test_moving_a_slider_changes_run_and_address():
    app = opened()
    before = numbers(charts(app)["loss"]["figure"]["data"][0]["y"])
    settled(app.select_slider(key="set_learning_rate").set_value(0.001).run())
    after = numbers(charts(app)["loss"]["figure"]["data"][0]["y"])
    assert np.array_equal(after, fit(Settings(learning_rate=0.001)).record["loss"])
    assert not np.array_equal(before, after)
    assert address(app) == {"v": "1", "learning_rate": "0.001"}


def test_address_restores_every_setting():
    settings = Settings(
        task="linear", batch_size=77, microbatches=3, reduction="sum_of_means", optimizer="lion", learning_rate=0.0123,
        weight_decay=0.07, schedule="warmup_linear", warmup_steps=7, decay_steps=33, final_fraction=0.125, steps=44,
        schedule_counts="microbatches", clip="value", clip_threshold=0.77, clip_at="microbatch", seed=9, noise=0.44,
    )  # fmt: skip
    app = opened(**settings.query())
    assert app.session_state["settings"] == settings
    assert address(app) == settings.query()
    assert np.array_equal(numbers(charts(app)["loss"]["figure"]["data"][0]["y"]), fit(settings).record["loss"])


def test_address_with_a_mistake_keeps_the_rest_and_says_why():
    app = opened(microbatches="4", lerning_rate="3", steps="-5")
    assert "did you mean learning_rate?" in said(app)
    assert app.session_state["settings"] == Settings(microbatches=4)
    assert address(app) == {"v": "1", "microbatches": "4"}
    assert "loss" in charts(app)


@pytest.mark.parametrize("value", ["<img src=x onerror=alert(1)>", "[a](http://example.com)", "**b**", "inf", "1e999"])
def test_words_from_the_address_are_shown_as_text(value):
    app = opened(steps=value)
    refusals = [e.proto.body for e in app.get("html") if 'class="refusal"' in e.proto.body]
    assert len(refusals) == 1
    assert "<img" not in refusals[0]
    assert not any(value in m.value for m in app.markdown)


def test_a_refused_text_keeps_the_run_and_says_what_is_legal():
    app = opened(task="scalar")
    settled(app.text_input(key="set_xs").set_value("1,two").run())
    assert "xs=1,two: must be numbers" in said(app)
    assert app.text_input(key="set_xs").value == "1,two"
    assert app.session_state["settings"] == Settings(task="scalar")
    assert "10 → 60" in charts(app)["accumulator"]["summary"]
    settled(app.text_input(key="set_xs").set_value("2,2").run())
    assert "must be numbers" not in said(app)
    assert app.session_state["settings"].xs == "2,2"


def test_exact_settings_take_words_and_refuse_in_place():
    app = opened()
    settled(app.text_input(key="exact").set_value("batch_size=250 microbatches=7").run())
    assert app.session_state["settings"] == Settings(batch_size=250, microbatches=7)
    assert "250 examples cannot be divided by 7" in said(app)
    settled(app.text_input(key="exact").set_value("batch_size=9999").run())
    assert "batch_size=9999: must be 1 to 1442" in said(app)
    assert app.session_state["settings"] == Settings(batch_size=250, microbatches=7)
    settled(app.text_input(key="exact").set_value("nonsense").run())
    assert "settings are written KEY=VALUE" in said(app)
    settled(app.text_input(key="exact").set_value("task=scalar reduction=sum").run())
    assert app.session_state["settings"] == Settings(task="scalar", reduction="sum")


def test_a_new_task_keeps_what_is_not_about_the_task():
    app = opened(clip="global_norm", reduction="sum", hidden="8", learning_rate="0.3")
    settled(app.selectbox(key="set_task").set_value("hand").run())
    assert app.session_state["settings"] == Settings(task="hand", clip="global_norm", reduction="sum")


def test_reset_puts_a_group_back_and_leaves_the_others():
    app = opened(microbatches="2", reduction="sum", learning_rate="0.1")
    settled(app.button(key="reset_batch").click().run())
    assert app.session_state["settings"] == Settings(learning_rate=0.1)
    assert "reset_batch" not in [button.key for button in app.button]


def test_reset_of_the_task_group_keeps_the_task():
    app = opened(task="scalar", xs="5,6")
    settled(app.button(key="reset_task").click().run())
    assert app.session_state["settings"] == Settings(task="scalar")
    assert "reset_task" not in [button.key for button in app.button]


def test_only_controls_that_matter_are_shown():
    keys = {w.key for w in [*opened().select_slider, *opened().selectbox]}
    assert "set_clip_threshold" not in keys
    assert "set_warmup_steps" not in keys
    keys = {w.key for w in opened(clip="value", schedule="warmup_cosine").select_slider}
    assert {"set_clip_threshold", "set_warmup_steps"} <= keys


def test_the_microscope_opens_the_chosen_update():
    app = opened(task="scalar", schedule="linear")
    app.session_state.step = 3
    settled(app.run())
    update = fit(Settings(task="scalar", schedule="linear")).at(3)
    totals = [microbatch.running_total.values[0] for microbatch in update.microbatches]
    assert numbers(charts(app)["accumulator"]["figure"]["data"][0]["y"]).tolist() == pytest.approx(totals)
    assert "Update 3:" in said(app)


@pytest.mark.parametrize(
    "query",
    [
        {"task": "hand", "gradients": "nan/1,2"},
        {"task": "hand", "gradients": "0/0"},
        {"task": "hand", "gradients": "inf/1", "clip": "global_norm"},
        {"task": "hand", "gradients": "2:0/0:2", "clip": "value", "clip_at": "microbatch"},
        {"task": "scalar", "steps": "1"},
        {"task": "scalar", "learning_rate": "1000", "steps": "100"},
        {"task": "scalar", "xs": "1e30,1e30"},
        {"task": "scalar", "microbatches": "64"},
        {"task": "linear", "batch_size": "1", "microbatches": "1", "steps": "5000"},
        {"task": "digits", "hidden": "", "steps": "2", "batch_size": "1442", "microbatches": "64"},
        {"learning_rate": "0", "steps": "3"},
        {"learning_rate": "1000", "optimizer": "sgd", "steps": "40"},
    ],
)
def test_odd_runs_are_drawn_and_explained(query):
    app = opened(**query)
    shown = charts(app)
    assert list(shown) == ["loss", "rate", "accumulator", "reductions"]
    assert all(chart["title"] and chart["read"] and chart["summary"] for chart in shown.values())


def test_a_run_that_is_not_finite_says_from_which_update_on():
    app = opened(task="scalar", learning_rate="1000", steps="100")
    bad = int(np.flatnonzero(~fit(Settings(task="scalar", learning_rate=1000, steps=100)).record["finite"])[0])
    assert f"first in update {bad}." in said(app)


def test_a_comparison_draws_the_other_run_and_where_they_part():
    app = opened(task="scalar", against="reduction=sum learning_rate=0.02")
    while "divergence" not in charts(app):
        settled(app.run())
    run, other = fit(Settings(task="scalar")), fit(Settings(task="scalar", reduction="sum", learning_rate=0.02))
    shown = charts(app)
    assert np.array_equal(numbers(shown["loss"]["figure"]["data"][-1]["y"]), other.record["loss"])
    apart = np.abs(run.record["loss"].astype(float) - other.record["loss"].astype(float))
    drawn = numbers(shown["divergence"]["figure"]["data"][0]["y"])
    np.testing.assert_array_equal(drawn, np.where(apart > 0, apart, np.nan))
    assert np.allclose(numbers(shown["rate"]["figure"]["data"][-1]["y"]), 0.02)
    assert "They part at update 1" in shown["divergence"]["summary"]
    assert address(app) == {"v": "1", "task": "scalar", "against": "reduction=sum learning_rate=0.02"}


def test_a_comparison_with_itself_is_zero_everywhere():
    app = opened(task="scalar", against="reduction=mean")
    while "divergence" not in charts(app):
        settled(app.run())
    assert charts(app)["divergence"]["summary"] == "The two runs are equal at every update."


def test_an_impossible_comparison_is_refused_and_the_run_stays():
    app = opened(task="linear", against="task=digits")
    assert "task=digits: runs of different tasks have no curve in common" in said(app)
    assert list(charts(app)) == ["loss", "rate", "accumulator", "reductions"]
    settled(app.selectbox(key="set_against").set_value("").run())
    assert "no curve in common" not in said(app)
    assert address(app) == {"v": "1", "task": "linear"}


def test_runs_over_other_batches_share_curves_and_no_single_update():
    app = opened(task="linear", against="batch_size=50", axis="epochs", step="3")
    while charts(app)["loss"]["figure"]["data"][-1]["name"] != "compared":
        settled(app.run())
    assert "The two runs differ in batch_size" in said(app)
    shown = charts(app)
    assert list(shown) == ["loss", "rate", "accumulator", "reductions"]
    mine, other = shown["loss"]["figure"]["data"][0], shown["loss"]["figure"]["data"][-1]
    assert numbers(mine["x"])[10] == pytest.approx(10 * 100 / 1000)
    assert numbers(other["x"])[10] == pytest.approx(10 * 50 / 1000)
    assert "compared" not in shown["accumulator"]["read"]


def test_float16_shows_its_range_and_what_the_accumulator_costs():
    app = opened(compute_dtype="float16", loss_scaling="static", loss_scale="0.00000762939453125")
    assert "loss_scale" in charts(app)
    app.session_state.view = "precision"
    shown = charts(settled(app.run()))
    assert {"gradient_range", "rounding"} <= set(shown)
    run = fit(Settings(compute_dtype="float16", loss_scaling="static", loss_scale=2.0**-17))
    assert f"{100 * run.census(0).flushed:.3g} % become 0" in shown["gradient_range"]["summary"]
    assert "below float16&#x27;s smallest number" in said(app)


def test_a_break_is_placed_and_cured_with_one_button():
    app = opened(param_dtype="float16", steps="5")
    assert "First not finite in update 0, in the optimizer, tensor 0.bias" in said(app)
    (cure,) = [button for button in app.button if button.key == "cure_run_1"]
    assert cure.label == "Try param_dtype=float32"
    settled(cure.click().run())
    assert address(app) == {"v": "1", "steps": "5"}
    assert "First not finite" not in said(app)


def test_a_pinned_run_stays_the_baseline_while_settings_move():
    app = opened(task="linear", learning_rate="0.03")
    settled(app.button(key="pin").click().run())
    assert "divergence" not in charts(app)
    app.text_input(key="exact").set_value("learning_rate=0.1 reduction=sum")
    settled(app.run())
    assert address(app)["against"] == "reduction=mean learning_rate=0.03"
    (choice,) = [box for box in app.selectbox if box.key == "set_against"]
    assert "baseline: task=linear learning_rate=0.03" in choice.options
    while "divergence" not in charts(app):
        settled(app.run())
    assert numbers(charts(app)["loss"]["figure"]["data"][-1]["y"]).tolist() == pytest.approx(
        fit(Settings(task="linear", learning_rate=0.03)).record["loss"].tolist()
    )


def test_loss_scales_are_offered_as_powers_of_two():
    app = opened(compute_dtype="float16", loss_scaling="static", loss_scale="1024")
    (slider,) = [s for s in app.select_slider if s.key == "set_loss_scale"]
    assert slider.options[0] == "2^-24"
    assert slider.options[-1] == "2^24"
    assert slider.value == 1024


def test_devices_show_whether_they_agree():
    app = opened(task="linear", devices="2", device_reduction="none", steps="20")
    assert "drift" in charts(app)
    app.session_state.view = "devices"
    shown = charts(settled(app.run()))
    assert {"device_gradients", "device_agreement", "device_losses", "dealt"} <= set(shown)
    assert "No device sees the others" in said(app)
    right = opened(task="linear", devices="2", steps="20")
    right.session_state.view = "devices"
    assert "Exactly 0 at every update" in charts(settled(right.run()))["spread"]["summary"]


def test_one_device_is_told_there_is_nothing_to_compare():
    app = opened(task="linear")
    app.session_state.view = "devices"
    settled(app.run())
    assert [box.value for box in app.info] == [
        "This run uses one device. Choose more under Devices to see whether they agree."
    ]


def test_the_tooltip_says_what_the_value_does_now():
    app = opened(task="scalar", xs="1,2,3,4,5")
    (before,) = [slider.help for slider in app.select_slider if slider.key == "set_microbatches"]
    assert "**Now:** The batch of 5 examples is cut into 2 microbatches, one of 3 and one of 2." in before
    settled(app.select_slider(key="set_microbatches").set_value(4).run())
    (after,) = [slider.help for slider in app.select_slider if slider.key == "set_microbatches"]
    assert "is cut into 4 microbatches, 2 of 2, one of 1 and one empty." in after


def test_stages_follow_the_settings_and_the_chosen_update():
    app = opened(task="scalar", clip="global_norm", loss_scaling="static", loss_scale="8", clip_at="scaled")
    app.session_state.view = "stages"
    settled(app.run())
    shown = charts(app)
    assert list(shown) == ["loss", "rate", "loss_scale", "stages"]
    told = {frame["name"]: frame["layout"]["meta"] for frame in shown["stages"]["figure"]["frames"]}
    assert list(told)[3:5] == ["clip (global_norm)", "unscale"]
    assert told["accumulate"]["formula"].endswith("A = 80 + 400 = 480")
    assert "Too late" in told["unscale"]["summary"]
    app.session_state.step = 3
    settled(app.run())
    later = charts(app)["stages"]["figure"]["frames"][-1]["layout"]["meta"]
    before = fit(app.session_state["settings"]).at(3).params_before.values[0]
    assert f"w = {before:.3g} − 0.00125" in later["formula"]
