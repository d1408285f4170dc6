"""The decision surface is what the network says at every place, before each of the updates it names."""

import jax
import numpy as np
import pytest

from app import figures
from lab import Settings, fit, surface


def by_hand(state, norm: str, places: np.ndarray) -> np.ndarray:
    x = places.astype(np.float64)
    for i, layer in enumerate(state.params[:-1]):
        x = x @ layer["weight"]
        if norm == "batch":
            mean, square = state.statistics[i]
            x = (x - mean) / np.sqrt(square - mean**2 + 1e-5) * layer["gain"]
        x = np.maximum(x + layer["bias"], 0)
    scores = x @ state.params[-1]["weight"] + state.params[-1]["bias"]
    return 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))


@pytest.mark.parametrize("keys", [{}, {"norm": "batch", "dropout": 0.2}, {"devices": 2, "steps": 40}], ids=str)
def test_every_frame_is_the_network_of_its_update(keys):
    run = fit(Settings(task="points", shape="spiral", **keys))
    seen = surface.through(run)
    assert seen.steps[0] == 0 and seen.steps[-1] == run.record.length and (np.diff(seen.steps) > 0).all()
    places = np.array([(x, y) for y in seen.y for x in seen.x])
    for k in (0, len(seen.steps) // 2, -1):
        state = run.state(int(seen.steps[k]))
        want = by_hand(state, keys.get("norm", "none"), places).reshape(len(seen.y), len(seen.x))
        np.testing.assert_allclose(seen.probability[k], want, atol=2e-5)
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (state.params, run.params)), strict=True))


@pytest.mark.parametrize("steps", [1, 15, 300, 5000])
def test_a_run_of_any_length_has_few_frames_and_needs_no_replay(steps):
    run = fit(Settings(task="points", steps=steps))
    at = surface.through(run).steps
    assert 2 <= len(at) <= surface.FRAMES + 1
    assert set(at[:-1]) <= set(run.kept)


def test_the_grid_is_square_and_holds_every_point():
    seen = surface.through(fit(Settings(task="points", steps=2)))
    assert np.ptp(seen.x) == pytest.approx(np.ptp(seen.y))
    for axis, grid in enumerate((seen.x, seen.y)):
        assert grid[0] < seen.points[:, axis].min() and grid[-1] > seen.points[:, axis].max()


def test_two_runs_share_one_scale_and_the_frames_move_both():
    run, other = (fit(Settings(task="points", optimizer=name, steps=200)) for name in ("adam", "sgd"))
    mine, compared = surface.through(run), surface.through(other)
    chart = figures.surface(mine, compared)
    areas = [trace for trace in chart.figure.to_dict()["data"] if trace["type"] == "contour"]
    assert [(area["zmin"], area["zmax"]) for area in areas] == [(0, 100), (0, 100)]
    assert len(chart.figure.frames) == len(mine.steps)
    last = chart.figure.frames[-1]
    assert last.name == "after 200 updates" and list(last.traces) == [0, 3]
    for drawn, of in zip(last.data, (mine, compared), strict=True):
        np.testing.assert_allclose(drawn.z, 100 * of.probability[-1], atol=0.51)
    right = [
        np.mean((100 * of.probability[-1][np.abs(of.y[:, None] - of.points[:, 1]).argmin(axis=0),
                                          np.abs(of.x[:, None] - of.points[:, 0]).argmin(axis=0)] > 50) == of.labels)
        for of in (mine, compared)
    ]  # fmt: skip
    assert chart.summary == (
        f"{100 * right[0]:.3g} % of the training points lie on their side; in the compared run {100 * right[1]:.3g} %."
    )


def test_a_run_that_is_not_finite_is_drawn_without_an_error():
    run = fit(Settings(task="points", param_dtype="float16", steps=60))
    assert not run.record["finite"].all()
    chart = figures.surface(surface.through(run))
    assert "not a number" in chart.summary
    assert "lie on their side" in chart.figure.frames[0].layout.meta
