"""Every sentence, and the numbers in it worked out again without the laboratory."""

import numpy as np
import pytest

from lab import Settings, fit, microscope
from lab.findings import number, of_run, of_update, percent, plural
from lab.headline import headline
from lab.plan import Plan
from lab.run import Training


def told(**keys) -> tuple[str, str]:
    """Level and text of what is said of the first update."""
    plan = Plan(Settings(**keys))
    (finding,) = of_update(microscope.look(plan.inputs(0, plan.start), plan.start, 0))
    return finding.level, finding.text


def said(**keys) -> dict[str, str]:
    """What is said of a run: text -> level."""
    return {found.text: found.level for found in of_run(fit(Settings(**keys)))}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.018349, "0.0183"), (12.34, "12.3"), (99.96, "100"), (123.4, "123"), (999.6, "1,000"),
        (12345, "12,300"), (1.2e-7, "1.2e-07"), (-12.34, "-12.3"), (1, "1"), (0.001, "0.001"), (2e6, "2.0e+06"),
        (np.float32(0.1), "0.1"), (np.inf, "inf"), (np.nan, "nan"), (0.5, "0.5"), (5.0, "5"),
    ],
)  # fmt: skip
def test_numbers_as_a_person_writes_them(value, text):
    assert number(value) == text


def test_shares_and_plurals():
    assert [percent(x) for x in (0.2, 0.0123456, 1, 0.97771)] == ["20 %", "1.23 %", "100 %", "97.8 %"]
    assert [plural(1, "update"), plural(2000, "update"), plural(3, "batch")] == [
        "1 update",
        "2,000 updates",
        "3 batches",
    ]
    assert plural(2, "microbatch") == "2 microbatches" and plural(0, "example") == "0 examples"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (dict(), "digits · 256 examples = 8 microbatches x 32 · mean · adam, cosine 0.01 · 300 updates"),
        (dict(task="hand", steps=1), "hand · 4 examples = 2 microbatches · mean · sgd, 0.1 · 1 update"),
        (
            dict(batch_size=250, clip="value", clip_threshold=0.5, clip_at="microbatch"),
            "digits · 250 examples = 8 microbatches · mean · adam, cosine 0.01 · clip value 0.5 at the microbatch"
            " · 300 updates",
        ),
        (
            dict(task="scalar", xs="3", microbatches=1, reduction="sum"),
            "scalar · 1 example = 1 microbatch x 1 · sum · sgd, 0.01 · 20 updates",
        ),
    ],
)
def test_the_headline(keys, text):
    assert headline(Settings(**keys)) == text


def test_agreement_is_said_with_its_size():
    assert told(task="hand") == ("ok", "mean over 2 microbatches agrees with the full batch exactly.")
    level, text = told(task="linear", microbatches=1)
    assert level == "ok" and text.startswith(
        "mean over 1 microbatch agrees with the full batch to a relative error of "
    )
    assert float(text.split("error of ")[1].split(",")[0]) <= 1e-6


def test_a_sum_is_said_to_be_too_long():
    level, text = told(reduction="sum")
    assert level == "warning" and "sum is 256 times the full-batch gradient" in text and "adds 256 examples" in text
    assert "sum is 4 times the full-batch gradient: it adds 4 examples" in told(task="hand", reduction="sum")[1]


def test_a_mean_of_means_is_said_to_weigh_examples_unevenly():
    level, text = told(task="hand", reduction="mean_of_means")
    assert level == "warning" and "mean_of_means is 20 % off the full batch" in text  # |3 - 2.5| / 2.5
    assert "microbatches of 1 to 3 examples" in text and "weighs 3 times as much" in text


def test_a_mean_of_means_is_said_to_count_empty_microbatches():
    level, text = told(task="scalar", xs="1,2,3", microbatches=8, reduction="mean_of_means")
    assert level == "warning" and "mean_of_means is 62.5 % off" in text  # 28/8 against 28/3
    assert "divides by 8 microbatches, and 5 of them are empty" in text


@pytest.mark.parametrize(
    ("gradients", "times", "more"),
    [("4/2,2,2", "2.4", "1 to 3 examples the same"), ("2/2/2", "3", ""), ("1,1/3,3", "2", "")],
)
def test_a_sum_of_means_is_said_to_be_too_long(gradients, times, more):
    level, text = told(task="hand", gradients=gradients, reduction="sum_of_means")
    count = gradients.count("/") + 1
    assert level == "warning" and f"sum_of_means is {times} times as long as the full-batch gradient" in text
    assert f"adds the means of {count} microbatches and never divides by {count}" in text
    assert text.endswith(more + ".") and ("examples" in text) == bool(more)


@pytest.mark.parametrize("gradients", ["1/2,3/4,5,6", "1:2/3:-4,0.5:2", "100/3,5,7,9"])
def test_every_reduction_is_said_to_be_off_by_what_numpy_says(gradients):
    groups = [np.array([[float(x) for x in e.split(":")] for e in g.split(",")]) for g in gradients.split("/")]
    sizes, full = [len(group) for group in groups], np.concatenate(groups).mean(0)
    means = np.array([group.mean(0) for group in groups])
    off, times = (np.linalg.norm(v) / np.linalg.norm(full) for v in (means.mean(0) - full, means.sum(0)))
    assert told(task="hand", gradients=gradients)[0] == "ok"
    assert f"sum is {sum(sizes)} times" in told(task="hand", gradients=gradients, reduction="sum")[1]
    assert f"{100 * off:.3g} % off" in told(task="hand", gradients=gradients, reduction="mean_of_means")[1]
    assert f"is {times:.3g} times as long" in told(task="hand", gradients=gradients, reduction="sum_of_means")[1]


@pytest.mark.parametrize(
    ("gradients", "reduction"), [("3", "sum"), ("4/2", "mean_of_means"), ("2/2,2", "mean_of_means")]
)
def test_a_reduction_that_happens_to_be_right_is_not_accused(gradients, reduction):
    assert told(task="hand", gradients=gradients, reduction=reduction)[0] == "ok"


def test_a_clip_on_microbatches_is_said_to_turn_the_gradient():
    level, text = told(task="hand", gradients="3:4/0:0.5", clip="global_norm", clip_at="microbatch")
    full, used = np.array([1.5, 2.25]), np.array([0.3, 0.65])
    error = np.linalg.norm(used - full) / np.linalg.norm(full)
    cosine = used @ full / np.linalg.norm(used) / np.linalg.norm(full)
    assert level == "warning" and f"{100 * error:.3g} % off" in text and f"cosine of {cosine:.4f}" in text
    assert "clip_at=update" in text


@pytest.mark.parametrize(("gradients", "which"), [("1/nan", 2), ("inf/1/nan", 1), ("1/2/-inf,3", 3)])
def test_a_gradient_that_is_not_finite_is_said_where(gradients, which):
    level, text = told(task="hand", gradients=gradients)
    assert level == "warning" and f"gradient of microbatch {which} of " in text


@pytest.mark.parametrize(
    "keys",
    [
        dict(task="hand", gradients="0.1,0.2/-0.3"),
        dict(task="hand", gradients="1e8,1,1/-1e8"),
        dict(task="scalar", xs="1,1,1,1", ys="0.1,0.2,0.3,0.4", w=0.25),
    ],
)
def test_the_mean_is_never_said_to_be_another_reduction(keys):
    _, text = told(**keys)
    assert "sum_of_means" not in text and "mean_of_means" not in text and "never divides" not in text


@pytest.mark.parametrize("reduction", ["mean", "mean_of_means"])
def test_cancellation_in_float32_is_called_rounding(reduction):
    level, text = told(task="hand", gradients="1e8/1/-1e8", reduction=reduction)  # 1e8 + 1 is 1e8 in float32
    assert level == "note" and "100 % off" in text and "rounding" in text and "weighs 1 times" not in text


def test_what_overflows_float32_is_told_as_that():
    level, text = told(task="hand", gradients="3e38/3e38/1")
    assert level == "warning" and "sum is not finite" in text and "gradient of microbatch" not in text
    assert told(task="hand", gradients="3e19:4e19/1:1")[0] == "ok"  # only its square overflows


def test_a_converged_mean_is_never_said_to_be_another_reduction():
    run = fit(Settings(task="linear", batch_size=1000, steps=600))
    (finding,) = of_update(run.at(599))
    assert "sum_of_means" not in finding.text and "never divides" not in finding.text


def test_the_loss_is_said_to_have_fallen_or_not():
    run = fit(Settings(task="linear"))
    first, last = run.record["loss"][[0, -1]]
    assert {f.text: f.level for f in of_run(run)} == {f"Loss went from {first:.3g} to {last:.3g}.": "ok"}
    risen = said(task="scalar", xs="1", learning_rate=1.25, steps=3, microbatches=1)
    assert risen["Loss went from 1 to 5.06. It did not fall."] == "warning"
    assert said(task="scalar", steps=1) == {}


def test_the_held_out_accuracy_is_said():
    run = fit(Settings(steps=40, hidden="8"))
    (text,) = said(steps=40, hidden="8")
    assert f"Held-out accuracy {100 * run.held_out['accuracy'][-1]:.3g} %." in text


def test_divergence_is_said_with_its_first_update():
    run = fit(Settings(task="scalar", learning_rate=1, steps=100))
    bad = np.flatnonzero(~np.isfinite(run.record["loss"]) | ~np.isfinite(run.record["grad_norm"]))
    (text,) = [text for text, level in said(task="scalar", learning_rate=1, steps=100).items() if level == "warning"]
    assert f"in {len(bad)} updates, first in update {bad[0]}." in text


@pytest.mark.parametrize(
    ("gradients", "threshold", "at", "text"),
    [
        ("3/3", 1, "update", "value clipping changed the gradient in 7 of 7 updates."),
        ("3/0.5", 2, "microbatch", "value clipping changed some microbatch's gradient in 7 of 7 updates."),
        ("3/0.5", 2, "update", "value clipping changed the gradient in 0 of 7 updates."),
    ],
)
def test_clipping_is_counted(gradients, threshold, at, text):
    keys = dict(gradients=gradients, clip="value", clip_threshold=threshold, clip_at=at, steps=7)
    assert said(task="hand", **keys)[text] == "note"


def test_a_clip_that_never_bit_is_said_to_have_changed_nothing():
    keys = dict(xs="0.1,0.2,0.7", microbatches=3, clip="global_norm", clip_threshold=100, reduction="mean_of_means")
    assert "global_norm clipping changed the gradient in 0 of 200 updates." in said(task="scalar", steps=200, **keys)


def test_one_is_singular():
    assert "1 example cannot be divided by 2: 1 microbatch of 1" in " ".join(said(task="scalar", xs="1"))
    assert "1 of them is empty" in told(task="scalar", xs="1,2,3,4,5", microbatches=4, reduction="mean_of_means")[1]


@pytest.mark.parametrize(
    ("xs", "microbatches", "pieces"),
    [
        ("1,2,3", 8, ["3 examples cannot be divided by 8", "3 microbatches of 1, then 5 with none"]),
        ("1,2,3,4,5,6,7", 3, ["7 examples cannot be divided by 3", "2 microbatches of 3, then one of 1;"]),
        ("1,2,3,4,5", 4, ["5 examples cannot be divided by 4", "2 microbatches of 2, then one of 1, then 1 with none"]),
        ("1,2,3", 2, ["3 examples cannot be divided by 2", "1 microbatch of 2, then one of 1;"]),
    ],
)
def test_microbatches_that_are_short_or_empty_are_said(xs, microbatches, pieces):
    texts = " ".join(said(task="scalar", xs=xs, microbatches=microbatches))
    for piece in pieces:
        assert piece in texts


def test_a_schedule_that_counts_microbatches_is_said_to_be_too_fast():
    keys = dict(task="scalar", schedule="linear", steps=10, microbatches=4)
    (text,) = [text for text, level in said(**keys, schedule_counts="microbatches").items() if level == "warning"]
    assert "moves 4 times an update: its 10 counts are over after 3 updates" in text
    assert not any("schedule" in text for text in said(**keys))


def test_settings_that_change_nothing_are_said():
    texts = said(task="scalar", seed=4, clip_threshold=3)
    for name in ("seed=4", "clip_threshold=3.0"):
        assert texts[f"{name} changes nothing here: no other choice uses it."] == "note"


@pytest.mark.parametrize("task", ["scalar", "linear"])
def test_a_rate_of_zero_is_said(task):
    assert said(task=task, learning_rate=0, steps=2)["The learning rate is 0: nothing can move."] == "note"


def test_a_stopped_run_is_said_to_be_one():
    training = Training(Plan(Settings(task="linear")))
    training.advance(7)
    assert ("note", "Stopped after 7 of 200 updates.") in [(f.level, f.text) for f in of_run(training.run())]
