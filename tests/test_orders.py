"""Every order of reduction and clip: against loops in float64 NumPy, one for each, and against the run itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import oracle
import pytest
from oracle import Tensors

from lab import Settings, fit, reference, tasks
from lab.choices import CLIPS, REDUCTIONS
from lab.findings import AGREES, of_orders
from lab.microscope import first_of
from lab.orders import Order, Orders, _ordered, measure, shaping
from lab.plan import Plan


def measured(settings: Settings) -> Orders:
    """Those of the first update; no training is needed for it."""
    plan = Plan(settings)
    return measure(plan.inputs(0, plan.start), plan.start)


def hand(gradients: str, **keys: Any) -> Orders:
    return measured(Settings(task="hand", gradients=gradients, **{"clip": "global_norm", **keys}))


def table(orders: Orders) -> dict[tuple[str, str | None], Order]:
    return {(order.reduction, order.clip_at): order for order in orders.all}


def loop(
    kind: str, place: str, clip: str, limit: float, sums: list[Tensors], weights: list[int], params: Tensors,
    scale: float = 1, devices: int = 1,
) -> Tensors:  # fmt: skip
    """The gradient that a training loop with its operations in this order would come to."""

    def short(tensors: Tensors) -> Tensors:
        return oracle.clipped(clip, tensors, params, limit)

    def times(tensors: Tensors, by: float) -> Tensors:
        return [x * by for x in tensors]

    def plus(each: Sequence[Tensors]) -> Tensors:
        return [np.sum(x, axis=0) for x in zip(*each, strict=True)]

    if place == "microbatch":
        own = [1 if kind == "sum" else weight for weight in weights]
        sums = [times(short(times(tensors, 1 / by)), by) for tensors, by in zip(sums, own, strict=True)]
    if place == "device":
        share = len(sums) // devices
        parts = [slice(d * share, (d + 1) * share) for d in range(devices)]
        each = [short(oracle.reduced(kind, sums[part], weights[part])) for part in parts]
        if kind == "mean":
            each = [times(tensors, sum(weights[part])) for tensors, part in zip(each, parts, strict=True)]
        return times(plus(each), 1 / {"mean": sum(weights), "mean_of_means": devices}.get(kind, 1))
    gradient = oracle.reduced(kind, sums, weights)
    if place == "update":
        return short(gradient)
    return times(short(times(gradient, scale)), 1 / scale) if place == "scaled" else gradient


def check(orders: Orders, want: Mapping[Any, Tensors], right: Tensors):
    """Norm, angle and relative error of every combination."""
    straight = np.concatenate([np.ravel(x) for x in right])
    size = np.linalg.norm(straight)
    assert orders.right.norm == pytest.approx(size, rel=1e-6)
    assert set(table(orders)) == set(want)
    for at, order in table(orders).items():
        flat = np.concatenate([np.ravel(x) for x in want[at]])
        along = flat @ straight / np.linalg.norm(flat) / size
        across = np.linalg.norm(flat - straight * (flat @ straight) / size**2) / np.linalg.norm(flat)
        assert order.gradient.norm == pytest.approx(np.linalg.norm(flat), rel=3e-6), at
        assert order.angle == pytest.approx(np.rad2deg(np.arctan2(across, along)), rel=1e-4, abs=1e-4), at
        assert order.relative_error == pytest.approx(np.linalg.norm(flat - straight) / size, rel=1e-5, abs=3e-6), at


def test_without_a_clip_there_is_one_column():
    found = hand("4/2,2,2", clip="none")
    assert [(o.reduction, o.clip_at, o.gradient.norm, o.angle, o.clipped, o.used) for o in found.all] == [
        ("mean", None, 2.5, 0, False, True), ("sum", None, 10, 0, False, False),
        ("mean_of_means", None, 3, 0, False, False), ("sum_of_means", None, 6, 0, False, False),
    ]  # fmt: skip
    assert [o.relative_error for o in found.all] == pytest.approx([0, 3, 0.2, 1.4])
    assert found.right == ([2.5], 2.5)


def test_a_clip_hides_the_length_and_at_every_microbatch_turns_the_gradient():
    found = table(hand("3:4/0:1"))
    for kind in REDUCTIONS:  # [3, 4] and [0, 1] add up to [3, 5], on every microbatch first clipped to [0.6, 1.8]
        assert found[kind, "update"].gradient.values == pytest.approx(np.array([3, 5]) / 34**0.5, rel=1e-6)
        assert found[kind, "update"].relative_error < 1e-6 and found[kind, "update"].angle < 1e-4
        assert found[kind, "microbatch"].angle == pytest.approx(12.528808, rel=1e-5)
        assert found[kind, "microbatch"].clipped and found[kind, "update"].clipped
    assert found["mean", "microbatch"].gradient.values == pytest.approx([0.3, 0.9], rel=1e-6)
    assert found["sum", "microbatch"].gradient.values == pytest.approx([0.6, 1.8], rel=1e-6)
    assert [at for at, order in found.items() if order.used] == [("mean", "update")]
    free = table(hand("3:4/0:1", clip="none"))
    assert free["sum", None].angle < 1e-4 and free["sum", None].relative_error == pytest.approx(1)


def test_a_clip_before_unscaling_divides_the_limit_by_the_scale():
    found = table(hand("0.6:0.8", loss_scaling="static", loss_scale=65536, clip_at="scaled", w="0"))
    assert found["mean", "update"].gradient.values == pytest.approx([0.6, 0.8], rel=1e-6)
    scaled = found["mean", "scaled"]
    assert scaled.gradient.values == pytest.approx([9.1553e-06, 1.2207e-05], rel=1e-4)
    assert scaled.used and scaled.clipped and scaled.angle < 1e-4 and scaled.relative_error > 0.99
    assert not found["mean", "microbatch"].clipped


def test_a_clip_on_every_device_loses_length():
    found = table(hand("3:4/-3:4", devices=2, clip_at="device"))
    assert found["mean", "update"].gradient.values == pytest.approx([0, 1], abs=1e-7)
    assert found["mean", "device"].gradient.values == pytest.approx([0, 0.8], abs=1e-7)
    assert found["sum", "device"].gradient.values == pytest.approx([0, 1.6], abs=1e-7)
    assert found["mean", "device"].used and found["mean", "device"].relative_error == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("keys", "places"),
    [
        ({}, ["update", "microbatch"]),
        ({"devices": 2}, ["update", "microbatch", "device"]),
        ({"loss_scaling": "dynamic"}, ["update", "microbatch", "scaled"]),
        ({"devices": 2, "loss_scaling": "static"}, ["update", "microbatch", "device", "scaled"]),
        ({"clip_at": "device"}, ["update", "microbatch", "device"]),
        ({"clip_at": "scaled"}, ["update", "microbatch", "scaled"]),
    ],
)
def test_places_are_those_that_matter_and_the_one_in_use(keys, places):
    found = hand("1/2", **keys)
    assert [o.clip_at for o in found.all if o.reduction == "mean"] == places
    assert [(o.reduction, o.clip_at) for o in found.all if o.used] == [("mean", keys.get("clip_at", "update"))]


GROUPS = [[[4, 1]], [[2, 2], [-1, 3], [0.5, 0]], [[7, -2], [1, 1]], [[-3, 5]]]
TEXT = "/".join(",".join(":".join(map(str, row)) for row in group) for group in GROUPS)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("clip", "limit"), [("global_norm", 2), ("value", 1.5), ("global_norm", 4.5), ("value", 100)])
def test_every_combination_is_what_its_loop_gives(clip, limit, devices):
    keys = {"clip": clip, "clip_threshold": limit, "loss_scaling": "static", "loss_scale": 8, "devices": devices}
    groups = [np.array(group, float) for group in GROUPS]
    sums, weights = [[group.sum(axis=0)] for group in groups], [len(group) for group in groups]
    places = ["update", "microbatch", *(["device"] if devices > 1 else []), "scaled"]
    want = {
        (kind, place): loop(kind, place, clip, limit, sums, weights, [np.ones(2)], 8, devices)
        for kind in REDUCTIONS
        for place in places
    }
    check(hand(TEXT, **keys), want, oracle.clipped(clip, [np.concatenate(groups).mean(0)], [np.ones(2)], limit))


@pytest.mark.parametrize(("clip", "limit"), [("global_norm", 0.3), ("per_tensor", 0.2), ("adaptive", 0.03)])
def test_the_same_of_a_network_in_uneven_microbatches(clip, limit):
    settings = Settings(batch_size=100, microbatches=8, hidden="9", clip=clip, clip_threshold=limit, steps=1)
    plan = Plan(settings)
    inputs = plan.inputs(0, plan.start)
    data = tasks.load(settings).train
    pieces = [
        np.asarray(r)[np.asarray(f)] for r, f in zip(inputs.examples.rows[0], inputs.examples.filled[0], strict=True)
    ]
    params = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(first_of(plan.start.params))]

    def sums(rows) -> Tensors:
        return oracle.digits(params, {"x": data["x"][rows].astype(np.float64), "y": data["y"][rows]})[1]

    weights = [len(piece) for piece in pieces]
    assert weights == [13] * 7 + [9]
    each, everything = [sums(piece) for piece in pieces], [x / 100 for x in sums(np.concatenate(pieces))]
    want = {
        (kind, place): loop(kind, place, clip, limit, each, weights, params)
        for kind in REDUCTIONS
        for place in ("update", "microbatch")
    }
    found = measured(settings)
    check(found, want, oracle.clipped(clip, everything, params, limit))
    assert table(found)["mean", "update"].relative_error < AGREES < table(found)["mean", "microbatch"].relative_error


@pytest.mark.parametrize("kind", CLIPS)
@pytest.mark.parametrize("limit", [0.3, 2, 1e9])
def test_the_clips_of_the_reference_agree_with_numpy(kind, limit):
    draw = np.random.default_rng(2)
    params = [draw.standard_normal(shape) for shape in ((), (3,), (4, 3))]
    gradient = [draw.standard_normal(x.shape) for x in params]
    got = reference.clipped(kind, np.concatenate([x.ravel() for x in gradient]), params, limit)
    want = np.concatenate([x.ravel() for x in oracle.clipped(kind, gradient, params, limit)])
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert np.array_equal(got, np.concatenate([x.ravel() for x in gradient])) == (kind == "none" or limit == 1e9)


RUNS: list[dict[str, Any]] = [
    {"task": "hand", "gradients": TEXT, "clip": "value", "clip_at": "microbatch", "reduction": "sum"},
    {"task": "hand", "gradients": TEXT, "accumulator_dtype": "bfloat16", "reduction": "sum_of_means"},
    {"task": "hand", "gradients": TEXT, "devices": 2, "clip": "global_norm", "clip_at": "device"},
    {"task": "linear", "batch_size": 90, "microbatches": 7, "clip": "global_norm", "clip_threshold": 0.1},
    {"task": "linear", "devices": 4, "device_reduction": "none", "clip": "value", "clip_threshold": 0.1},
    {"task": "linear", "devices": 2, "device_reduction": "sum", "parallel": "shard_map", "clip": "global_norm"},
    {"task": "linear", "devices": 2, "device_reduction": "mean", "parallel": "auto", "reduction": "mean_of_means"},
    {
        "task": "points", "compute_dtype": "float16", "loss_scaling": "static", "loss_scale": 256, "clip": "per_tensor",
        "clip_at": "scaled", "clip_threshold": 10, "norm": "batch", "dropout": 0.2, "dropout_keys": "shared",
    },
    {"clip": "adaptive", "clip_threshold": 0.01, "clip_at": "microbatch", "reduction": "mean_of_means", "hidden": "9"},
]  # fmt: skip


@pytest.mark.parametrize("keys", RUNS, ids=str)
def test_the_one_in_use_is_what_the_run_hands_its_optimizer(keys):
    run = fit(Settings(steps=18, **keys))
    for step in (0, 17):
        stages = list(run.at(step).stages.items())
        given = stages[[name for name, _ in stages].index("optimizer") - 1][1]
        (used,) = [order for order in run.orders(step).all if order.used]
        assert used.gradient.norm == pytest.approx(given.norm, rel=1e-6)
        np.testing.assert_allclose(used.gradient.values, given.values, rtol=2e-6, atol=1e-6 * given.norm)
        assert used.gradient.norm == pytest.approx(run.record["clipped_grad_norm"][step], rel=1e-5)
        assert used.clipped == (run.record["clipped"][step] > 0)
        if keys.get("task") == "hand":
            assert np.array_equal(used.gradient.values, given.values)
            assert abs(used.gradient.norm - given.norm) <= np.spacing(np.float32(given.norm))


def test_what_clips_nothing_changes_nothing():
    found = measured(Settings(task="linear", batch_size=96, clip="global_norm", clip_threshold=1e6))
    for kind in REDUCTIONS:
        at_update, at_microbatch = (table(found)[kind, place] for place in ("update", "microbatch"))
        assert not at_update.clipped and not at_microbatch.clipped
        np.testing.assert_allclose(at_update.gradient.values, at_microbatch.gradient.values, rtol=1e-5)


@pytest.mark.parametrize("gradients", ["nan/1", "inf:1/2:1"])
def test_what_is_not_finite_has_no_angle_and_never_agrees(gradients):
    found = hand(gradients, clip="none")
    assert all(np.isnan(o.angle) and not o.relative_error <= AGREES for o in found.all)
    assert of_orders(found, AGREES) == "Without a clip, all four reductions give no direction: zero or not finite."


def test_zero_agrees_with_zero():
    found = hand("1:0/-1:0")
    assert all((o.angle, o.relative_error, o.gradient.norm) == (0, 0, 0) for o in found.all)


def test_small_and_large_gradients_have_angles_too():
    for size in ("e-30", "e19"):
        found = table(hand(f"3{size}:4{size}/0:1{size}", clip_threshold=1e-3, clip="value"))
        assert np.isfinite(found["mean", "update"].angle)
    tiny = table(hand("3e-30:4e-30/0:1e-30", clip="global_norm"))
    assert tiny["mean", "microbatch"].angle < 1e-4


def test_numbers_compile_nothing_new():
    settings = Settings(task="linear", clip="global_norm", steps=2)
    one, other = fit(settings), fit(settings.replace(clip_threshold=0.25, learning_rate=0.5, seed=4))
    assert one.orders(0).right.norm != other.orders(1).right.norm
    assert _ordered(*shaping(Plan(settings).recipe))._cache_size() == 1


def test_what_is_in_use_compiles_nothing_new():
    settings = Settings(task="linear", clip="value", devices=2, steps=1)
    for changes in ({}, {"reduction": "sum"}, {"clip_at": "microbatch"}, {"optimizer": "adam"}):
        run = fit(settings.replace(**changes))
        assert sum(order.used for order in run.orders(0).all) == 1
    assert _ordered(*shaping(Plan(settings).recipe))._cache_size() == 1


def test_one_pass_over_the_microbatches_serves_all():
    settings = Settings(task="linear", clip="global_norm", loss_scaling="static", steps=1)
    calls = []
    plan = Plan(settings)
    inputs = plan.inputs(0, plan.start)
    loss = inputs.recipe.loss
    counted = inputs.recipe._replace(loss=lambda *given: calls.append(1) or loss(*given))
    examples = inputs.examples
    placed = plan.start.params, plan.start.scale.value, examples.rows, examples.filled
    given = *placed, examples.data, examples.draw, inputs.numbers, np.zeros(11, np.float32), np.arange(11)
    _ordered(*shaping(counted)).lower(*given)
    assert 1 <= len(calls) <= 2  # once, and once more where JAX looks whether a carry keeps its type


def test_an_update_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="step=1: this run has updates 0 to 0"):
        fit(Settings(task="hand", steps=1)).orders(1)


def test_the_sentence_names_what_agrees_what_keeps_the_direction_and_what_turns():
    said = of_orders(hand("3:4/0:1"), AGREES)
    assert said == (
        "With the clip at the update, all four reductions agree with the full batch. "
        "With the clip at every microbatch, all four reductions turn it by 12.5°."
    )
    assert of_orders(hand("4/2,2,2", clip="none"), AGREES) == (
        "Without a clip, mean agrees with the full batch; sum, mean_of_means and sum_of_means keep its direction and "
        "not its length."
    )
    assert of_orders(hand("1/2/nan"), AGREES) == (
        "Wherever the clip stands, all four reductions give no direction: zero or not finite."
    )
    mixed = of_orders(hand("3:0/0:1,0:1,0:1", clip_threshold=1e6), AGREES)
    # mean is [3, 3] / 4 at 45 degrees, mean_of_means [3, 1] / 2 at 18.43
    assert "mean agrees with the full batch; sum keeps its direction and not its length;" in mixed
    assert "mean_of_means and sum_of_means turn it by 26.6°" in mixed
