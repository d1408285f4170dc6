"""Whole runs against the float64 oracle: task x microbatches x reduction x optimizer x clip."""

from typing import Any

import jax
import numpy as np
import oracle
import pytest

from lab import Run, Settings, batches, fit
from lab.plan import Plan

REDUCTIONS = ("mean", "sum", "mean_of_means", "sum_of_means")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "lion")
CLIPS = [("none", "update"), *((clip, at) for at in ("update", "microbatch") for clip in
         ("global_norm", "value", "per_tensor", "adaptive"))]  # fmt: skip

BASE: dict[str, dict[str, Any]] = {
    "scalar": {"xs": "1,-2,3,0.5,1.5", "ys": "2,1,0,-1,4", "w": 0.3},
    "hand": {"w": "0.5,-1"},
    "linear": {"noise": 0.5},
    "digits": {"hidden": "8", "batch_size": 250},
}
CUTS: dict[str, list[dict[str, Any]]] = {
    "scalar": [{"microbatches": m} for m in (1, 2, 3, 8)],
    "hand": [{"gradients": g} for g in ("4:1", "4:1,2:0,2:3", "4:1/2:0,2:3,2:-1", "1:2/-3:1,2:2/0.5:0.25/1:1")],
    "linear": [{"batch_size": b, "microbatches": m} for b, m in ((64, 1), (100, 3), (97, 8), (5, 8))],
    "digits": [{"microbatches": m} for m in (1, 2, 3, 8)],
}
RATES = {"sgd": 0.02, "momentum": 0.01, "adam": 0.02, "adamw": 0.02, "lion": 0.01}


def assert_close(got: list, want: list, start: list, tolerance: float = 3e-5):
    """Parameters equal up to a share of how far they moved, and the rounding of the parameters themselves."""
    moved = oracle.distance(start, want)
    assert oracle.distance(got, want) <= tolerance * moved + 1e-6 * oracle.length(want)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]


def expected(settings: Settings, start: list[np.ndarray]) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    task = Plan(settings).task
    data = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in task.train.items()}
    updates = []
    for step in range(settings.steps):
        order = batches.stream(task, settings.seed, settings.batch_size, step, 1)
        batch = {name: x[order] for name, x in data.items()}
        if settings.task == "hand":
            edges = np.cumsum([len(group.split(",")) for group in settings.gradients.split("/")])[:-1]
            updates.append([{"x": piece} for piece in np.split(batch["x"], edges)])
        else:
            updates.append(oracle.cut(batch, settings.microbatches))
    rates = [settings.learning_rate * (1 - i / settings.steps) for i in range(settings.steps)]
    choices = oracle.Choices(**{name: getattr(settings, name) for name in oracle.Choices._fields})
    return oracle.train(oracle.SUMS[settings.task], start, updates, rates, choices)


def check(**keys: Any) -> Run:
    """A run with a linear schedule agrees with the oracle, in its parameters and in every column."""
    rate = RATES[keys.get("optimizer", "sgd")]
    keys = {"schedule": "linear", "learning_rate": rate, "steps": 6, "weight_decay": 0.3, "seed": 3} | keys
    run = fit(Settings(**keys))
    start = leaves(run.state(0).params)
    params, rows = expected(run.settings, start)
    assert_close(leaves(run.params), params, start)
    assert set(rows) | {"step", "unmoved"} == set(run.record)
    assert run.record["step"].tolist() == list(range(6))
    for name, want in rows.items():
        np.testing.assert_allclose(run.record[name], want, rtol=0, atol=3e-5 * np.abs(want).max(), err_msg=name)
    return run


def limit(task: str, clip: str) -> float:
    """A threshold that clips some updates and spares others; none of the gradients is just as long."""
    if clip == "adaptive":
        return 0.1 if task == "digits" else 0.45
    return 1.0 if task == "digits" else 2.9


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("task", "cut"), [(task, i) for task in ("scalar", "hand", "linear") for i in range(4)])
def test_every_cut_and_reduction(task, cut, reduction):
    rate = 1e-4 if reduction.startswith("sum") else 0.02
    check(task=task, reduction=reduction, learning_rate=rate, **BASE[task], **CUTS[task][cut])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("clip", "at"), CLIPS)
def test_every_optimizer_and_clip(clip, at, optimizer):
    i, j = CLIPS.index((clip, at)), OPTIMIZERS.index(optimizer)
    task = ("scalar", "hand", "linear")[(i + j) % 3]
    check(
        task=task, reduction=REDUCTIONS[(i + j) % 4], optimizer=optimizer, clip=clip, clip_at=at,
        clip_threshold=limit(task, clip), **BASE[task], **CUTS[task][(i + 2 * j) % 4],
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("i", "j"), [(i, j) for i in range(4) for j in range(4) if i // 2 == (i + j) % 2])
def test_a_network_with_every_cut_reduction_optimizer_and_clip(i, j):
    clip, at = CLIPS[(0, 1, 3, 5)[i]]
    check(
        task="digits", reduction=REDUCTIONS[(i + j) % 4], optimizer=OPTIMIZERS[j], clip=clip, clip_at=at,
        clip_threshold=limit("digits", clip), **BASE["digits"], **CUTS["digits"][(2 * i + j) % 4],
    )  # fmt: skip
