"""One update opened: totals by hand, every reduction against float64, stages, names, and JSON."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from lab import Settings, Update, batches, microscope, tasks
from lab.microscope import agreement
from lab.plan import Plan
from lab.record import to_json
from lab.reference import gradient
from lab.task import Context


def look(settings: Settings) -> Update:
    """The first update; no training is needed for it."""
    plan = Plan(settings)
    return microscope.look(plan.inputs(0, plan.start), plan.start, 0)


def opened(**keys) -> Update:
    return look(Settings(**keys))


def values(vectors) -> list[list[float]]:
    return [vector.values.tolist() for vector in vectors]


def test_the_worked_example():
    update = opened(task="scalar")
    assert values(entry.adds for entry in update.microbatches) == [[10], [50]]
    assert values(entry.running_total for entry in update.microbatches) == [[10], [60]]
    assert [entry.loss_sum for entry in update.microbatches] == [5, 25]
    assert {name: vector.values.tolist() for name, vector in update.reductions.items()} == {
        "mean": [15], "sum": [60], "mean_of_means": [15], "sum_of_means": [30],
    }  # fmt: skip
    assert update.full_sum.values == [60] and update.reference.values == [15] and update.agreement == (0, 1)
    assert update.stages["learning_rate"].values == [-np.float32(0.01) * 15]


def test_one_long_and_three_short():
    update = opened(task="hand")
    assert [(entry.examples, entry.weight, entry.loss_sum) for entry in update.microbatches] == [(1, 1, 4), (3, 3, 6)]
    assert {name: vector.values.tolist() for name, vector in update.reductions.items()} == {
        "mean": [2.5], "mean_of_means": [3], "sum": [10], "sum_of_means": [6],
    }  # fmt: skip
    errors = {name: entry.relative_error for name, entry in update.reduction_agreement.items()}
    assert errors == pytest.approx({"mean": 0, "mean_of_means": 0.2, "sum": 3, "sum_of_means": 1.4})


@pytest.mark.parametrize(
    ("reduction", "adds", "by", "cosines"),
    [
        ("mean", [[4, 0], [0, 6]], 4, [4 / 52**0.5, 1]),
        ("sum", [[4, 0], [0, 6]], 1, [4 / 52**0.5, 1]),
        ("mean_of_means", [[4, 0], [0, 2]], 2, [4 / 52**0.5, 14 / 260**0.5]),
        ("sum_of_means", [[4, 0], [0, 2]], 1, [4 / 52**0.5, 14 / 260**0.5]),
    ],
)
def test_the_running_total_is_compared_with_the_full_batch(reduction, adds, by, cosines):
    update = opened(task="hand", gradients="4:0/0:2,0:2,0:2", reduction=reduction)
    totals, full = np.cumsum(adds, axis=0), np.array([1, 1.5])
    assert values(entry.adds for entry in update.microbatches) == adds
    assert values(entry.running_total for entry in update.microbatches) == totals.tolist()
    errors = np.linalg.norm(totals / by - full, axis=1) / np.linalg.norm(full)
    told = [entry.to_full for entry in update.microbatches]
    np.testing.assert_allclose([entry.relative_error for entry in told], errors, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose([entry.cosine for entry in told], cosines, rtol=1e-6)


def first_batch(settings: Settings) -> dict[str, np.ndarray]:
    task = tasks.load(settings)
    rows = batches.stream(task, settings.seed, settings.batch_size, 0, 1)
    return {name: array[rows] for name, array in task.train.items()}


def full_batch(settings: Settings, params) -> np.ndarray:
    """The float64 gradient of the mean loss by the oracle, as one vector."""
    batch = {name: x.astype(np.float64) if name != "y" or settings.task != "digits" else x
             for name, x in first_batch(settings).items()}  # fmt: skip
    tensors = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)]
    _, sums = oracle.SUMS[settings.task](tensors, batch)
    return np.concatenate([np.ravel(x) for x in sums]) / settings.batch_size


@pytest.mark.parametrize(("batch_size", "microbatches"), [*[(256, 2**k) for k in range(6)], (250, 8), (255, 32)])
def test_the_mean_of_digits_is_the_full_batch_however_it_is_cut(batch_size, microbatches):
    settings = Settings(batch_size=batch_size, microbatches=microbatches)
    update, full = look(settings), full_batch(settings, microscope.first_of(Plan(settings).start.params))
    assert update.agreement.relative_error <= 2e-6 and update.agreement.cosine == pytest.approx(1, abs=1e-9)
    assert update.reference.norm == pytest.approx(np.linalg.norm(full), rel=1e-9)
    largest = np.sort(np.abs(full))[::-1][: microscope.NAMED]
    np.testing.assert_allclose(np.abs(update.reference.values), largest, rtol=1e-9)
    for name, vector in update.reductions.items():
        if batch_size == 256:  # all microbatches are even: every reduction is a multiple
            times = {"mean": 1, "mean_of_means": 1, "sum": 256, "sum_of_means": microbatches}[name]
            assert vector.norm == pytest.approx(times * np.linalg.norm(full), rel=2e-6)
            np.testing.assert_allclose(vector.values, times * update.reference.values, rtol=1e-5)
            assert update.reduction_agreement[name].relative_error == pytest.approx(times - 1, abs=2e-6 * times)


def test_uneven_microbatches_of_digits_make_the_mean_of_means_wrong_by_what_the_oracle_says():
    settings = Settings(batch_size=250, microbatches=8)
    update, batch = look(settings), first_batch(settings)
    params = [
        np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(microscope.first_of(Plan(settings).start.params))
    ]
    batch = {"x": batch["x"].astype(np.float64), "y": batch["y"]}
    pieces = oracle.cut(batch, 8)
    assert [entry.examples for entry in update.microbatches] == [len(piece["y"]) for piece in pieces] == [32] * 7 + [26]
    means = [np.concatenate([np.ravel(x) for x in oracle.digits(params, p)[1]]) / len(p["y"]) for p in pieces]
    full = np.concatenate([np.ravel(x) for x in oracle.digits(params, batch)[1]]) / 250
    wrong = np.linalg.norm(np.mean(means, axis=0) - full) / np.linalg.norm(full)
    assert wrong > 1e-3 and update.reduction_agreement["mean_of_means"].relative_error == pytest.approx(wrong, rel=1e-4)


@pytest.mark.parametrize(
    "keys",
    [
        dict(task="scalar", ys="1,2,3,-1"), dict(task="hand", gradients="1:2/3:4,5:6"), dict(task="linear"),
        dict(hidden=""), dict(hidden="9,7", batch_size=100),
    ],
    ids=str,
)  # fmt: skip
def test_the_reference_agrees_with_numpy(keys):
    settings, draw = Settings(**keys), np.random.default_rng(1)
    start = microscope.first_of(Plan(settings).start.params)
    params = jax.tree.map(lambda x: np.asarray(x) + draw.standard_normal(x.shape).astype(np.float32), start)
    everything = Context(jnp.ones(settings.batch_size, bool))
    got, weight = gradient(tasks.load(settings).loss, params, first_batch(settings), everything)
    assert weight == settings.batch_size and got.dtype == np.float64
    np.testing.assert_allclose(got, full_batch(settings, params), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("clip_at", ["update", "microbatch"])
def test_the_stages_in_order(clip_at):
    update = opened(
        task="hand", gradients="3:4/-3:4", optimizer="momentum", clip="global_norm", clip_at=clip_at, w="1,1"
    )
    if clip_at == "update":
        want = dict(accumulate=[0, 8], reduce_microbatches=[0, 4], clip=[0, 1], optimizer=[0, 1],
                    learning_rate=[0, -0.1], update=[1, 0.9])  # fmt: skip
    else:
        want = dict(accumulate=[0, 1.6], reduce_microbatches=[0, 0.8], optimizer=[0, 0.8],
                    learning_rate=[0, -0.08], update=[1, 0.92])  # fmt: skip
    assert list(update.stages) == list(want)
    for name, vector in update.stages.items():
        np.testing.assert_allclose(vector.values, want[name], rtol=1e-6, atol=1e-7)
        assert vector.norm == pytest.approx(np.linalg.norm(want[name]), rel=1e-6)


@pytest.mark.parametrize("poison", ["nan", "inf", "-inf"])
def test_what_is_not_finite_is_shown(poison):
    update = opened(task="hand", gradients=f"1/{poison},2")
    np.testing.assert_array_equal(update.microbatches[1].adds.values, [np.float32(poison)])
    np.testing.assert_array_equal(update.reductions["mean"].values, [np.float32(poison)])
    told = json.loads(to_json(update.to_dict()))
    assert told["microbatches"][1]["gradient"] == [poison] == told["microbatches"][1]["running_total"]
    assert told["microbatches"][0]["gradient"] == [1] and told["reference"]["gradient"] == [poison]


@pytest.mark.parametrize("gradients", ["0/0", "1/-1", "0:0/1:2,-1:-2"])
def test_a_zero_full_batch_gradient_agrees_with_zero(gradients):
    update = opened(task="hand", gradients=gradients)
    assert update.agreement == (0, 1)
    assert update.microbatches[-1].to_full == (0, 1)
    assert not any(np.isnan(entry.to_full.relative_error) for entry in update.microbatches)


@pytest.mark.parametrize(
    ("vector", "full", "error", "cosine"),
    [
        ([3, 4], [3, 4], 0, 1), ([0, 0], [0, 0], 0, 1), ([0, 0], [3, 4], 1, 0), ([6, 8], [3, 4], 1, 1),
        ([-3, -4], [3, 4], 2, -1), ([4, -3], [3, 4], 2**0.5, 0), ([1, 1], [0, 0], np.inf, 0),
        ([np.nan, 0], [3, 4], np.nan, np.nan),
    ],
)  # fmt: skip
def test_agreement_worked_out_by_hand(vector, full, error, cosine):
    np.testing.assert_allclose(agreement(np.array(vector, np.float32), np.array(full)), (error, cosine), atol=1e-12)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (dict(task="scalar"), ["w"]),
        (dict(task="hand", gradients="1:2:3"), ["w[0]", "w[1]", "w[2]"]),
        (dict(task="linear"), ["b", *[f"w[{i}]" for i in range(10)]]),
    ],
)
def test_coordinates_have_names(keys, names):
    update = opened(**keys)
    assert update.coordinates == names and update.complete


def test_a_large_vector_gives_a_few_named_coordinates():
    settings = Settings(hidden="12")
    update, full = look(settings), full_batch(settings, microscope.first_of(Plan(settings).start.params))
    shapes = {"0.bias": (12,), "0.weight": (64, 12), "1.bias": (10,), "1.weight": (12, 10)}
    names = [f"{name}[{','.join(map(str, place))}]" for name, shape in shapes.items() for place in np.ndindex(shape)]
    assert len(names) == len(full) and not update.complete and len(update.coordinates) == 8
    for name, value in zip(update.coordinates, update.reference.values, strict=True):
        assert full[names.index(name)] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("keys", [dict(task="scalar"), dict(task="hand", gradients="nan:1/2:3"), dict(hidden="8")])
def test_the_json_is_valid_and_has_the_documented_keys(keys):
    told = json.loads(to_json(opened(**keys).to_dict()))
    assert {"step", "microbatches", "reductions", "reference", "agreement", "stages", "update"} <= set(told)
    documented = {"device", "index", "examples", "weight", "loss_sum", "gradient_norm", "running_total_norm",
                  "cosine_to_full"}  # fmt: skip
    small = keys.get("task") in ("scalar", "hand")
    for k, entry in enumerate(told["microbatches"]):
        assert documented <= set(entry) and entry["index"] == k
        assert ("gradient" in entry, "running_total" in entry) == (small, small)
    assert set(told["reductions"]) == {"mean", "sum", "mean_of_means", "sum_of_means"}
    assert [stage["name"] for stage in told["stages"]][:2] == ["accumulate", "reduce_microbatches"]
    assert ("applied" in told["update"], "gradient" in told["reference"]) == (small, small)
    assert set(told["agreement"]) == {"relative_error", "cosine"}


def test_another_reduction_optimizer_or_clip_does_not_compile_the_gradients_anew():
    settings = Settings(task="linear", batch_size=60, microbatches=4, steps=1)
    changes: list[dict[str, Any]] = [{}, {"reduction": "sum"}, {"optimizer": "adam"}, {"clip": "value"}]
    recipes = []
    for change in changes:
        recipes.append(Plan(settings.replace(**change)).recipe)
        look(settings.replace(**change))
    (gradients,) = {recipe.of_gradients() for recipe in recipes}
    assert len(set(recipes)) == 4 and microscope._reduced(gradients)._cache_size() == 1
