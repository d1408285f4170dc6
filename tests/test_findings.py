"""Every sentence that can be said, with every number in it worked out again in NumPy."""

import re
from functools import cache
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lab import Run, Settings, findings, fit, microscope
from lab.findings import Finding
from lab.plan import Plan


@cache
def trained(**keys: Any) -> Run:
    return fit(Settings(**keys))


def of_update(**keys: Any) -> Finding:
    plan = Plan(Settings(**keys))
    (finding,) = findings.of_update(microscope.look(plan.inputs(0), plan.start, 0))
    return finding


def by_hand(reduction: str, gradients: str, **keys: Any) -> Finding:
    return of_update(task="hand", gradients=gradients, reduction=reduction, **keys)


def of_run(**keys: Any) -> list[str]:
    return [finding.text for finding in findings.of_run(trained(**keys))]


def groups_of(gradients: str) -> list[np.ndarray]:
    return [
        np.array([[float(word) for word in example.split(":")] for example in group.split(",")])
        for group in gradients.split("/")
    ]


def reduced(reduction: str, gradients: str) -> np.ndarray:
    groups = groups_of(gradients)
    return oracle.reduced(reduction, [[group.sum(0)] for group in groups], [len(group) for group in groups])[0]


def numbers_in(text: str) -> list[float]:
    return [float(word.replace(",", "")) for word in re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text)]


GRADIENTS = ["4/2,2,2", "1/2,3/4,5,6", "1:2/3:-4,0.5:2", "100/3,5,7,9"]


@pytest.mark.parametrize("gradients", [*GRADIENTS, "5"])
def test_the_right_mean_is_said_to_agree(gradients):
    count = gradients.count("/") + 1
    found = by_hand("mean", gradients)
    assert found.level == "ok"
    assert found.text.startswith(f"mean over {count} microbatch{'es' if count > 1 else ''} agrees with the full batch ")


def test_an_agreement_to_rounding_names_its_error():
    run = trained(task="linear", steps=30)
    update = run.at(1)
    examples, params = run._plan.inputs(1).examples, run.state(1).params
    rows = np.asarray(examples.rows).ravel()
    batch = {name: array[rows].astype(np.float64) for name, array in run.task.train.items()}
    _, sums = oracle.linear([np.float64(params["b"]), np.asarray(params["w"], np.float64)], batch)
    full = np.concatenate([np.ravel(x) for x in sums]) / len(rows)
    error = np.linalg.norm(update.reductions["mean"].values - full) / np.linalg.norm(full)
    (found,) = findings.of_update(update)
    assert found.level == "ok" and 0 < error < 1e-6
    assert f"a relative error of {error:.1e}, the rounding of float32" in found.text


@pytest.mark.parametrize("gradients", GRADIENTS)
def test_a_sum_is_said_to_be_as_many_times_too_long_as_there_are_examples(gradients):
    count = sum(map(len, groups_of(gradients)))
    found = by_hand("sum", gradients)
    assert found.level == "warning" and numbers_in(found.text) == [count, count]
    assert found.text.startswith(f"sum is {count} times the full-batch gradient: it adds {count} examples")


@pytest.mark.parametrize("gradients", GRADIENTS)
def test_a_mean_of_means_is_said_to_be_off_by_how_much_and_why(gradients):
    full, wrong = reduced("mean", gradients), reduced("mean_of_means", gradients)
    sizes = [len(group) for group in groups_of(gradients)]
    found = by_hand("mean_of_means", gradients)
    off, least, most, ratio = numbers_in(found.text)
    assert found.level == "warning" and (least, most) == (min(sizes), max(sizes))
    assert off == pytest.approx(100 * np.linalg.norm(wrong - full) / np.linalg.norm(full), rel=5e-3)
    assert ratio == pytest.approx(most / least, rel=5e-3) and "in the smallest weighs" in found.text


def test_empty_microbatches_are_what_a_mean_of_means_is_wrong_by():
    found = of_update(task="scalar", xs="1,2,3,4,5", ys="1,0,2,0,3", microbatches=6, reduction="mean_of_means")
    each = 2 * (np.arange(1, 6) - [1, 0, 2, 0, 3]) * np.arange(1, 6)  # one a microbatch, and one microbatch empty
    off, count, empty = numbers_in(found.text)
    assert found.level == "warning" and (count, empty) == (6, 1)
    assert off == pytest.approx(100 * abs(each.sum() / 6 / each.mean() - 1), rel=5e-3)


@pytest.mark.parametrize("gradients", [*GRADIENTS, "1,2/3,4"])
def test_a_sum_of_means_is_said_to_be_as_many_times_too_long(gradients):
    full, wrong = reduced("mean", gradients), reduced("sum_of_means", gradients)
    sizes = [len(group) for group in groups_of(gradients)]
    found = by_hand("sum_of_means", gradients)
    ratio, *counts = numbers_in(found.text)
    assert found.level == "warning" and ratio == pytest.approx(np.linalg.norm(wrong) / np.linalg.norm(full), rel=5e-3)
    assert counts == [len(sizes)] * 2 + ([min(sizes), max(sizes)] if len(set(sizes)) > 1 else [])


RIGHT = [("sum", "3"), ("mean_of_means", "4/2"), ("mean_of_means", "1,2/3,4"), ("mean_of_means", "2/2,2,2")]


@pytest.mark.parametrize(("reduction", "gradients"), RIGHT)
def test_a_reduction_that_happens_to_be_right_is_not_accused(reduction, gradients):
    assert by_hand(reduction, gradients, clip="global_norm", clip_threshold=2).level == "ok"


@pytest.mark.parametrize("gradients", ["3:4/6:-8", "3:4/0:0.1,0:0.3"])
def test_clipping_microbatches_is_what_a_mean_is_wrong_by(gradients):
    found = by_hand("mean", gradients, clip="global_norm", clip_at="microbatch", clip_threshold=2)
    groups = groups_of(gradients)
    means = [group.mean(0) for group in groups]
    short = [mean * min(1, 2 / np.linalg.norm(mean)) for mean in means]
    sizes = np.array([len(group) for group in groups])
    used, full = sizes @ short / sizes.sum(), reduced("mean", gradients)
    off, cosine = numbers_in(found.text)
    assert found.level == "warning" and "clip_at=update" in found.text
    assert off == pytest.approx(100 * np.linalg.norm(used - full) / np.linalg.norm(full), rel=5e-3)
    assert cosine == pytest.approx(used @ full / np.linalg.norm(used) / np.linalg.norm(full), abs=1e-4)


@pytest.mark.parametrize(("gradients", "first"), [("1/nan,2", 1), ("inf/1/nan", 0), ("1/2/-inf", 2), ("1:2/3:nan", 1)])
def test_the_first_microbatch_that_is_not_finite_is_named(gradients, first):
    for reduction in ("mean", "sum_of_means"):
        found = by_hand(reduction, gradients)
        assert found.level == "warning" and numbers_in(found.text) == [first] and "not finite" in found.text


@pytest.mark.parametrize("reduction", ["mean", "mean_of_means"])
def test_cancellation_in_float32_is_not_blamed_on_the_reduction(reduction):
    found = by_hand(reduction, "1e8/1/-1e8")  # 1e8 + 1 is 1e8 in float32: the total is 0 where it should be 1
    assert found.level == "warning" and "round" in found.text
    assert "sum_of_means" not in found.text and "weighs 1 times" not in found.text


def test_what_overflows_float32_is_told_as_that():
    assert "The gradient of microbatch 0 is not finite" not in by_hand("mean", "3e19:4e19/1:1").text  # its square is
    found = by_hand("mean", "3e38/3e38/1")
    assert found.level == "warning" and "not finite" in found.text and "sum_of_means" not in found.text


def test_a_run_without_surprises_tells_only_how_the_loss_moved():
    run = trained(task="linear", steps=30)
    (found,) = findings.of_run(run)
    assert found.level == "ok" and found.text.startswith("Loss went from ")
    np.testing.assert_allclose(numbers_in(found.text), run.record["loss"][[0, -1]], rtol=5e-3)
    assert of_run(task="scalar", steps=1) == []


def test_a_run_of_digits_tells_its_held_out_accuracy():
    run = trained(steps=20, hidden="8")
    *_, found = findings.of_run(run)
    accuracy = numbers_in(found.text)[-1]
    assert accuracy == pytest.approx(100 * run.held_out["accuracy"][-1], abs=0.05) and found.text.endswith(" %.")


def test_a_loss_that_does_not_fall_is_a_warning():
    *_, found = findings.of_run(trained(task="scalar", learning_rate=0.2, steps=3))
    assert found.level == "warning" and found.text.endswith("It did not fall.")
    np.testing.assert_allclose(numbers_in(found.text), [7.5, 7.5 * (1 - 15 * 0.2) ** 4], rtol=5e-3)


def test_the_first_update_that_is_not_finite_is_named():
    factor, steps = 1 - 2 * 7.5, 60  # w is multiplied by -14; its loss overflows float32 first
    bad = int(np.argmax(7.5 * factor ** (2.0 * np.arange(steps)) > 3.4028235e38))
    (found,) = findings.of_run(trained(task="scalar", learning_rate=1, steps=steps))
    assert found.level == "warning" and numbers_in(found.text) == [bad, steps - bad]
    assert f"from update {bad} on ({steps - bad} updates)" in found.text


def test_a_stopped_run_says_where():
    run = fit(Settings(task="scalar", steps=1500), progress=lambda progress: False)
    found = findings.of_run(run)[0]
    assert found.level == "note" and numbers_in(found.text) == [run.record.length, 1500] and "1,500" in found.text


@pytest.mark.parametrize("at", ["update", "microbatch"])
def test_clipped_updates_are_counted(at):
    run = trained(task="scalar", steps=40, clip="value", clip_at=at, clip_threshold=5)
    w, touched = 1.0, 0
    for _ in range(40):
        means = [2 * w * 2.5, 2 * w * 12.5]
        touched += max(means) > 5 if at == "microbatch" else sum(means) / 2 > 5
        w -= 0.01 * (min(sum(means) / 2, 5) if at == "update" else sum(min(mean, 5) for mean in means) / 2)
    what = "the gradient" if at == "update" else "some microbatch's gradient"
    text = next(finding.text for finding in findings.of_run(run) if "clipping" in finding.text)
    assert 0 < touched < 40 and text == f"value clipping changed {what} in {touched} of 40 updates."


PIECES = {
    (10, 4): "3 microbatches of 3, then one of 1;",
    (5, 4): "2 microbatches of 2, then one of 1, then 1 with none;",
    (4, 6): "4 microbatches of 1, then 2 with none;",
    (9, 6): "4 microbatches of 2, then one of 1, then 1 with none;",
}


@pytest.mark.parametrize(("examples", "microbatches"), PIECES)
def test_a_batch_that_does_not_divide_is_told(examples, microbatches):
    first = of_run(task="scalar", xs=",".join(["1"] * examples), microbatches=microbatches, steps=2)[0]
    pieces = PIECES[examples, microbatches]
    assert first == f"{examples} examples do not divide by {microbatches}: {pieces} the empty places are masked."


def test_one_is_singular():
    first = of_run(task="scalar", xs="1", microbatches=2, steps=2)[0]
    assert "1 examples" not in first and "1 microbatches" not in first
    found = of_update(task="scalar", xs="1,2,3,4,5", microbatches=4, reduction="mean_of_means")
    assert "1 of them are" not in found.text


def test_settings_that_nothing_reads_are_told():
    texts = of_run(task="scalar", steps=2, warmup_steps=1, hidden="3")
    for told, word in zip(texts[:2], ("hidden=3", "warmup_steps=1"), strict=True):
        assert told == f"{word} changes nothing here: no other choice uses it."


@pytest.mark.parametrize(("length", "microbatches", "end"), [(0, 4, 5), (7, 3, 3), (2, 2, 1)])
def test_a_schedule_that_counts_microbatches_is_told(length, microbatches, end):
    keys = {"task": "scalar", "schedule": "linear", "schedule_counts": "microbatches", "steps": 20}
    run = trained(**keys, decay_steps=length, microbatches=microbatches)
    found = [f for f in findings.of_run(run) if "schedule" in f.text]
    assert [f.level for f in found] == ["warning"] and numbers_in(found[0].text) == [microbatches, length or 20, end]
    assert not any("schedule" in text for text in of_run(**keys, microbatches=1))


@pytest.mark.parametrize("task", ["scalar", "linear"])
def test_a_learning_rate_of_0_is_told(task):
    assert "The learning rate is 0: nothing can move." in of_run(task=task, learning_rate=0, steps=2)


HEADLINES = {
    "": "digits · 256 examples = 8 microbatches x 32 · mean · adam, cosine 0.01 · 300 updates",
    "task=scalar microbatches=1 steps=1": "scalar · 4 examples = 1 microbatch x 4 · mean · sgd, 0.01 · 1 update",
    "task=hand gradients=4 reduction=sum": "hand · 1 example = 1 microbatch · sum · sgd, 0.1 · 10 updates",
    "task=linear microbatches=7 clip=value clip_threshold=0.5 steps=2000": "linear · 100 examples = 7 microbatches · "
    "mean · sgd, 0.05 · clip value 0.5 at the update · 2,000 updates",
}


@pytest.mark.parametrize("words", HEADLINES)
def test_the_headline(words):
    assert findings.headline(Settings.from_words(words.split())) == HEADLINES[words]


NUMBERS = {
    0: "0", -4.25: "-4.25", 0.01834: "0.0183", 12.345: "12.3", 12345: "12,300", 999.6: "1,000", 0.001: "0.001",
    0.00012: "1.2e-04", 3.46e9: "3.5e+09", 100: "100", 99.9: "99.9", float("nan"): "nan", float("-inf"): "-inf",
}  # fmt: skip


def test_numbers_as_a_person_writes_them():
    assert {value: findings.number(value) for value in NUMBERS} == NUMBERS


@given(st.floats(-1e30, 1e30))
def test_a_number_reads_back_to_its_digits(value):
    assume(value == 0 or abs(value) > 1e-300)
    text = findings.number(value)
    assert float(text.replace(",", "")) == pytest.approx(value, rel=5.01e-2 if "e" in text else 5.01e-3)
    assert len(text.replace("-", "")) <= 8


def test_percentages():
    shares = (0.2, 1, 0.00123, 0.9638, 13.8)
    assert [findings.percent(share) for share in shares] == ["20 %", "100 %", "0.123 %", "96.4 %", "1,380 %"]
