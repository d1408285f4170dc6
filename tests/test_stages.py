"""One update stage by stage: the order, the numbers in every formula by hand, and what is said to have changed."""

import itertools
import json
import math
import re
from typing import Any

import jax
import numpy as np
import oracle
import pytest
from test_microscope import first_batch

from lab import Settings, Update, fit, microscope
from lab.findings import Stage, stages_of
from lab.plan import Plan
from lab.record import to_json


def first(settings: Settings) -> Update:
    """The first update; no training is needed for it."""
    plan = Plan(settings)
    return microscope.look(plan.inputs(0, plan.start), plan.start, 0)


def told(at: int = 0, /, **keys: Any) -> dict[str, Stage]:
    """The stages of an update by name."""
    settings = Settings(**keys)
    update = fit(settings).at(at) if at else first(settings)
    return {stage.name: stage for stage in stages_of(update, settings)}


def values(vectors) -> list[list[float]]:
    return [vector.values.tolist() for vector in vectors]


def test_the_worked_example_stage_by_stage():
    stages = told(task="scalar")
    assert {name: stage.with_numbers for name, stage in stages.items()} == {
        "microbatches": "G₁ = 10, G₂ = 50", "accumulate": "A = 10 + 50 = 60", "reduce_microbatches": "g = 60 / 4 = 15",
        "optimizer": "d = 15", "learning_rate": "u = −0.01 · 15 = −0.15", "update": "w = 1 − 0.15 = 0.85",
    }  # fmt: skip
    assert values(stages["microbatches"].after) == values(stages["accumulate"].before) == [[10], [50]]
    assert values(stages["update"].before) == [[1]]
    np.testing.assert_allclose(values(stages["update"].after), [[0.85]])
    assert "nothing changed" in stages["optimizer"].caption
    assert stages["update"].caption == "It is added: w goes from 1 to 0.85."


@pytest.mark.parametrize(
    ("reduction", "symbols", "numbers"),
    [
        ("mean", "g ← A / Σ Wᵢ", "g = 10 / 4 = 2.5"),
        ("sum", "g ← A", "g = 10"),
        ("mean_of_means", "g ← A / m", "g = 6 / 2 = 3"),
        ("sum_of_means", "g ← A", "g = 6"),
    ],
)
def test_only_what_the_reduction_divides_by_is_in_its_formula(reduction, symbols, numbers):
    stages = told(task="hand", reduction=reduction)
    assert (stages["reduce_microbatches"].formula, stages["reduce_microbatches"].with_numbers) == (symbols, numbers)
    means = reduction.endswith("of_means")
    assert stages["accumulate"].with_numbers == ("A = 4 + 2 = 6" if means else "A = 4 + 6 = 10")
    assert ("mean loss" in stages["microbatches"].formula) == means


def test_a_global_norm_clip_shortens_after_the_loss_scale_is_gone():
    keys = dict(task="hand", gradients="3:4/-3:4", loss_scaling="static", loss_scale=8, clip="global_norm")
    stages = told(**keys)
    assert list(stages) == ["microbatches", "accumulate", "reduce_microbatches", "unscale", "clip", "optimizer",
                            "learning_rate", "update"]  # fmt: skip
    assert stages["microbatches"].with_numbers == "|G₁| = 40, |G₂| = 40"
    assert stages["accumulate"].with_numbers == "|A| = |G₁ + G₂| = 64"
    assert "norms add up to 80; 64 of that is left" in stages["accumulate"].caption
    assert stages["unscale"].with_numbers == "|g| = 32 / 2^3 = 4"
    assert stages["clip"].with_numbers == "|g| = 4 · min(1, 1 / 4) = 1"
    assert "from 4 to 1, and the direction is kept" in stages["clip"].caption
    wrong = told(**keys, clip_at="scaled")
    assert list(wrong)[3:5] == ["clip", "unscale"]
    assert wrong["clip"].with_numbers == "|g| = 32 · min(1, 1 / 32) = 1" and "2^3" in wrong["clip"].caption
    assert wrong["unscale"].with_numbers == "|g| = 1 / 2^3 = 0.125" and "Too late" in wrong["unscale"].caption


def test_a_value_clip_turns_the_gradient_and_says_by_how_much():
    caption = told(task="hand", gradients="3:1", clip="value", clip_threshold=2)["clip"].caption
    angle = math.degrees(math.acos((3 * 2 + 1 * 1) / (math.hypot(3, 1) * math.hypot(2, 1))))
    assert "Coordinates beyond ±2 (1 of 2) are cut" in caption and f"turns by {angle:.3g}°" in caption


@pytest.mark.parametrize(
    ("clip", "said"),
    [
        ("global_norm", "the norm 0.5 is not above the threshold 1"), ("value", "no coordinate is beyond ±1"),
        ("per_tensor", "no tensor is longer"), ("adaptive", "no unit's gradient is longer"),
    ],
)  # fmt: skip
def test_a_clip_that_does_not_reach_changes_nothing(clip, said):
    stages = told(task="hand", gradients="0.3:0.4", clip=clip, w="1,1")
    assert stages["clip"].caption == f"Nothing changed: {said}" + stages["clip"].caption.partition(said)[2]
    assert values(stages["clip"].before) == values(stages["clip"].after)


def test_a_clip_of_the_microbatches_stands_before_the_accumulator():
    stages = told(task="hand", clip="global_norm", clip_at="microbatch")
    assert list(stages)[:3] == ["microbatches", "clip_microbatches", "accumulate"] and "clip" not in stages
    assert values(stages["microbatches"].after) == [[4], [6]] and values(stages["accumulate"].before) == [[1], [3]]
    assert stages["clip_microbatches"].with_numbers == "c = 1: |G₁ / W₁| = 4 → 1, |G₂ / W₂| = 2 → 1"
    assert "2 of 2" in stages["clip_microbatches"].caption
    assert stages["accumulate"].with_numbers == "A = 1 + 3 = 4"
    wide = told(task="hand", clip="global_norm", clip_at="microbatch", clip_threshold=9)
    assert wide["clip_microbatches"].caption == "Nothing changed: no microbatch is over the limit 9."


@pytest.mark.parametrize("scaling", [{}, {"loss_scaling": "static", "loss_scale": 4}])
def test_a_clip_of_the_devices_stands_before_they_meet(scaling):
    stages = told(task="hand", devices=2, clip="global_norm", clip_at="device", clip_threshold=3, **scaling)
    scale = scaling.get("loss_scale", 1)
    assert list(stages)[1:5] == ["accumulate", "clip_device", "reduce_microbatches", "reduce_devices"]
    assert values(stages["accumulate"].after) == [[4 * scale], [6 * scale]]
    assert values(stages["clip_device"].after) == [[3 * scale], [6 * scale]]
    seen = "c = 3: |A₁ / W₁| = 4 → 3, |A₂ / W₂| = 2 → 2"
    assert stages["clip_device"].with_numbers.replace("(W₁ s)", "W₁").replace("(W₂ s)", "W₂") == seen
    assert "1 of 2" in stages["clip_device"].caption
    total = 9 * scale
    assert stages["reduce_devices"].with_numbers == f"g = ({3 * scale} + {6 * scale}) / 4 = {total / 4:g}"


@pytest.mark.parametrize(
    ("how", "numbers", "after"),
    [
        ("global", "g = (4 + 6) / 4 = 2.5", [[2.5]]), ("mean", "g = (4 + 2) / 2 = 3", [[3]]),
        ("sum", "g = 4 + 2 = 6", [[6]]), ("none", "g₁ = 4, g₂ = 2", [[4], [2]]),
    ],
)  # fmt: skip
def test_devices_differ_until_they_are_reduced(how, numbers, after):
    stages = told(task="hand", devices=2, device_reduction=how)
    assert stages["accumulate"].with_numbers == "A₁ = 4, A₂ = 6"
    assert stages["reduce_microbatches"].with_numbers == "g₁ = 4 / 1 = 4, g₂ = 6 / 3 = 2"
    assert stages["reduce_devices"].with_numbers == numbers
    assert values(stages["reduce_devices"].after) == after
    assert ("drift apart" in stages["reduce_devices"].caption) == (how == "none")


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw", "lion"])
def test_the_optimizer_is_written_with_its_own_averages(name, step):
    stage = told(step, task="hand", gradients="2", optimizer=name, steps=4)["optimizer"]
    average = square = 0.0
    old = (0.0, 0.0)
    for _ in range(step + 1):
        old = (average, square)
        average = {"momentum": 0.9 * average + 2, "lion": 0.99 * average + 0.02}.get(name, 0.9 * average + 0.2)
        square = 0.999 * square + 0.004
    w = float(weight_before(name, step))
    m, v, m_old, v_old = (f"{value:.3g}" for value in (average, square, *old))
    want = {
        "sgd": "d = 2",
        "momentum": f"m = 0.9 · {m_old} + 2 = {m};  d = {m}",
        "adam": f"m = 0.9 · {m_old} + 0.1 · 2 = {m};  v = 0.999 · {v_old} + 0.001 · 2² = {v};  d = 2 / √4 = 1",
        "adamw": f"m = 0.9 · {m_old} + 0.1 · 2 = {m};  v = 0.999 · {v_old} + 0.001 · 2² = {v};  "
        f"d = 2 / √4 + 0.01 · {w:.3g} = {1 + 0.01 * w:.3g}",
        "lion": f"d = sign(0.9 · {m_old} + 0.1 · 2) + 0.01 · {w:.3g} = {1 + 0.01 * w:.3g};  m = {m}",
    }
    assert stage.with_numbers == want[name]


def weight_before(name: str, step: int) -> float:
    """w before an update of that test, by the oracle."""
    optimizer, w = oracle.Optimizer(name, 0.01, [np.ones(1)]), [np.ones(1)]
    for _ in range(step):
        w = [w[0] - 0.1 * optimizer.direction([np.full(1, 2.0)], w)[0]]
    return w[0][0]


def test_adams_first_step_turns_a_gradient_by_the_angle_to_its_signs():
    settings = Settings(hidden="8", optimizer="adam")
    opened, batch = first(settings), first_batch(settings)
    start = microscope.first_of(Plan(settings).start.params)
    params = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(start)]
    _, sums = oracle.digits(params, {"x": batch["x"].astype(np.float64), "y": batch["y"]})
    gradient = np.concatenate([np.ravel(x) for x in sums]) / settings.batch_size
    used = gradient[np.abs(gradient) > 1e-7]
    cosine = np.abs(used).sum() / (np.linalg.norm(used) * len(used) ** 0.5)
    assert not opened.complete and opened.stage_cosines["optimizer"] == pytest.approx(cosine, rel=2e-3)
    assert opened.stage_cosines["reduce_microbatches"] == pytest.approx(1)
    assert opened.stage_cosines["learning_rate"] == pytest.approx(-1)
    said = stages_of(opened, settings)[-3].caption
    assert f"turns by {math.degrees(math.acos(opened.stage_cosines['optimizer'])):.3g}°" in said


def test_the_rate_tells_where_its_schedule_stands():
    keys = dict(task="scalar", schedule="linear", learning_rate=1, steps=10)
    assert "0.7, the linear schedule at count 3; its peak is 1" in told(3, **keys)["learning_rate"].caption
    ahead = told(3, **keys, schedule_counts="microbatches")["learning_rate"].caption
    assert "0.4, the linear schedule at count 6" in ahead and "updates so far are 3" in ahead
    assert "the same at every update" in told(task="scalar")["learning_rate"].caption


def test_a_skipped_update_adds_nothing_and_says_so():
    stages = told(task="hand", gradients="60000/9e9", compute_dtype="float16", loss_scaling="dynamic")
    assert "microbatch 1" in stages["microbatches"].caption
    assert stages["accumulate"].caption == "What comes in is not finite, and no operation mends that."
    assert "skipped" in stages["learning_rate"].caption and stages["learning_rate"].with_numbers == "u = 0"
    assert values(stages["update"].after) == [[1]] and stages["update"].caption.startswith("Skipped")


def test_the_first_number_that_is_not_finite_is_placed():
    stages = told(hidden="8", param_dtype="float16", steps=1)
    placed = [name for name, stage in stages.items() if "for the first time" in stage.caption]
    assert placed == ["optimizer"] and "tensor" in stages["optimizer"].caption
    assert not any("finite" in stage.caption for stage in told(task="hand").values())


def test_what_is_too_small_for_the_format_moves_nothing():
    keys = dict(task="hand", gradients="1", learning_rate=0.0006, param_dtype="bfloat16")
    assert "too small for bfloat16, where w + u is w again" in told(**keys)["update"].caption
    assert "goes from 1 to 0.999" in told(**{**keys, "param_dtype": "float32"})["update"].caption
    assert "the same at every update: nothing can move" in told(task="hand", learning_rate=0)["learning_rate"].caption


def terms(text: str) -> list[tuple[float, float]]:
    """Both sides of every equation with numbers alone: `g = 60 / 4 = 15` -> (15, 15)."""
    found = []
    for equation in re.split(r";  |, (?=[A-Za-z])", text):
        sides = equation.split(" = ")
        if len(sides) != 3:
            continue
        plain = re.sub(r"(?<=\d),(?=\d{3})", "", sides[1])
        for symbol, python in (("−", "-"), ("·", "*"), ("²", "**2"), ("^", "**")):
            plain = plain.replace(symbol, python)
        plain = re.sub(r"√([\d.e-]+)", r"(\1)**0.5", plain)
        names = {"min": min, "sign": lambda x: float(np.sign(x))}
        found.append((eval(plain, names), float(sides[2].replace("−", "-").replace(",", ""))))
    return found


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw", "lion"])
@pytest.mark.parametrize("clip", ["none", "global_norm"])
@pytest.mark.parametrize("scaling", ["none", "static"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "mean_of_means", "sum_of_means"])
def test_every_formula_holds_and_every_stage_takes_what_the_last_one_gave(optimizer, clip, scaling, reduction):
    keys = dict(task="scalar", optimizer=optimizer, clip=clip, loss_scaling=scaling, loss_scale=16, reduction=reduction)
    stages = list(told(**keys).values())
    for before, after in itertools.pairwise(stages[:-1]):
        assert values(after.before) == values(before.after)
    checked = [pair for stage in stages for pair in terms(stage.with_numbers)]
    assert len(checked) >= 3
    for got, want in checked:
        assert got == pytest.approx(want, rel=0.012)


def test_the_json_tells_what_the_stages_need():
    settings = Settings(task="hand", devices=2, clip="global_norm", clip_at="device", optimizer="momentum")
    said = json.loads(to_json(first(settings).to_dict()))
    assert [stage["name"] for stage in said["stages"]][:2] == ["accumulate", "clip_device"]
    assert [stage["cosine_to_previous"] for stage in said["stages"]] == [None, 1, 1, 1, 1, -1, None]
    update = said["update"]
    assert (update["count"], update["params_before"]["params"]) == (0, [1])
    assert (update["moments"]["m"]["before"]["moment"], update["moments"]["m"]["after"]["moment"]) == ([0], [1])
    assert [microbatch["unclipped_norm"] for microbatch in said["microbatches"]] == [4, 6]
