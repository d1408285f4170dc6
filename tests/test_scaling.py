"""Loss scaling: the state machine by hand, and what it does to a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lab import Settings, compare, fit
from lab.findings import of_run
from lab.scaling import LEAST, MOST, Scale, adjust, init

UP, DOWN = True, False


def walk(outcomes: list[bool], interval: int, first: float, kind: str = "dynamic") -> list[list[float]]:
    """[log2 scale, good updates] after each outcome, with the state going through jit and tree mapping."""
    step = jax.jit(lambda scale, finite: adjust(kind, scale, finite, jnp.int32(interval)))
    scale, seen = init(kind, first), []
    for finite in outcomes:
        scale = jax.tree.map(lambda x: x, step(scale, jnp.bool_(finite)))
        assert isinstance(scale, Scale)
        seen.append([float(np.log2(scale.value)), int(scale.good)])
    return seen


def test_it_halves_on_overflow_and_doubles_after_an_interval():
    outcomes = [UP, UP, UP, UP, DOWN, UP, UP, UP]
    want = [[15, 1], [15, 2], [16, 0], [16, 1], [15, 0], [15, 1], [15, 2], [16, 0]]
    assert walk(outcomes, 3, 2.0**15) == want


def test_it_never_leaves_its_bounds():
    assert walk([UP] * 300, 1, 2.0**15)[-1] == [24, 0]
    assert walk([DOWN] * 300, 1, 2.0**15)[-1] == [-24, 0]
    assert walk([DOWN] * 300 + [UP] * 3, 1, 2.0**15)[-1] == [-21, 0]
    assert (LEAST, MOST) == (2.0**-24, 2.0**24)


@pytest.mark.parametrize(("kind", "value"), [("none", 0), ("static", 15)])
def test_the_others_stay_where_they_are(kind, value):
    assert walk([UP, DOWN] * 5, 1, 2.0**15, kind) == [[value, 0]] * 10


def overflowing(**keys) -> Settings:
    """Gradient 10: overflows float16 while the scale is above 2^12."""
    plain = {"loss_scaling": "dynamic", "loss_scale": 2.0**15, "growth_interval": 4, "steps": 12, "learning_rate": 0.5}
    return Settings(task="hand", gradients="10", compute_dtype="float16", **{**plain, **keys})


def test_an_overflow_skips_the_update_and_halves_the_scale():
    run = fit(overflowing())
    record = run.record
    assert np.log2(record["loss_scale"]).tolist() == [15, 14, 13, 12, 12, 12, 12, 13, 12, 12, 12, 12]
    assert np.flatnonzero(record["skipped"]).tolist() == [0, 1, 2, 7]
    assert (record["finite"] == ~record["skipped"]).all()
    assert record["update_norm"][record["skipped"]].tolist() == [0] * 4
    assert run.params["w"].tolist() == [1 - 8 * 0.5 * 10]
    assert record["loss"].tolist() == [10 * (1 - 5 * k) for k in (0, 0, 0, 0, 1, 2, 3, 4, 4, 5, 6, 7)]
    opened = run.at(2)
    assert opened.skipped
    assert opened.broke == ("backward", "w", 0, 0)
    assert opened.applied.values.tolist() == [0]
    assert opened.stages["update"].values.tolist() == [1]
    (finding,) = [f for f in of_run(run) if "skipped" in f.text]
    assert finding.text == "4 of 12 updates overflowed and were skipped; the loss scale went from 2^15 to 2^12."


def test_the_schedule_and_adam_count_applied_updates():
    keys = {"schedule": "linear", "optimizer": "adam"}
    record = fit(overflowing(**keys)).record
    plain = fit(overflowing(loss_scaling="none", **keys)).record
    applied = np.cumsum(~record["skipped"]) - ~record["skipped"]
    np.testing.assert_array_equal(record["learning_rate"], plain["learning_rate"][applied])
    kept = ~record["skipped"]
    np.testing.assert_allclose(record["update_norm"][kept], plain["update_norm"][: kept.sum()], rtol=1e-6)


@pytest.mark.parametrize("step", [0, 3, 7, 8, 11])
def test_any_update_opens_as_it_happened(step):
    run = fit(overflowing(schedule="linear"))
    update = run.at(step)
    assert update.loss_scale == run.record["loss_scale"][step]
    assert update.skipped == run.record["skipped"][step]
    assert np.float32(update.learning_rate) == run.record["learning_rate"][step]
    assert np.float32(update.applied.norm) == run.record["update_norm"][step]


def test_a_long_run_keeps_counting_applied_updates_over_every_piece():
    settings = overflowing(steps=40_000, schedule="linear", loss_scale=2.0**24, learning_rate=1e-6)
    run = fit(settings)
    record = run.record
    applied = np.cumsum(~record["skipped"]) - ~record["skipped"]
    np.testing.assert_allclose(record["learning_rate"], 1e-6 * (1 - applied / 40_000), rtol=1e-4, atol=1e-12)
    assert record["skipped"].sum() > 10
    state = run.state(20_000)
    assert int(state.applied) == applied[20_000]
    assert float(state.scale.value) == record["loss_scale"][20_000]


def test_the_scale_is_one_number_for_all_microbatches_of_an_update():
    run = fit(
        Settings(
            task="hand", gradients="1/2/60000/1", compute_dtype="float16", loss_scaling="dynamic", loss_scale=4,
            learning_rate=0.001, steps=4,
        )
    )  # fmt: skip
    assert run.record["loss_scale"].tolist() == [4, 2, 1, 1]
    assert [float(m.adds.values[0]) for m in run.at(1).microbatches] == [2, 4, np.inf, 2]
    assert run.at(1).broke == ("backward", "w", 2, 0)


def test_a_power_of_two_changes_nothing_in_float32():
    same = compare(Settings(loss_scaling="static", loss_scale=1024, steps=30), loss_scaling="none")
    assert not same.loss["loss_absolute"].any()
    assert not same.parameters["parameter_distance"].any()


def test_clipping_before_unscaling_leaves_next_to_nothing():
    keys = {"task": "hand", "gradients": "0.6:0.8", "clip": "global_norm", "steps": 1, "learning_rate": 1}
    scaled = {"loss_scaling": "static", "loss_scale": 65536}
    wrong = fit(Settings(clip_at="scaled", **scaled, **keys)).at(0)
    assert list(wrong.stages) == ["accumulate", "reduce_microbatches", "clip", "unscale", "optimizer",
                                  "learning_rate", "update"]  # fmt: skip
    assert wrong.stages["unscale"].values == pytest.approx([9.1553e-06, 1.2207e-05], rel=1e-4)
    assert wrong.stages["unscale"].norm == pytest.approx(1.5259e-05, rel=1e-4)
    right = fit(Settings(**scaled, **keys)).at(0)
    assert list(right.stages)[2:4] == ["unscale", "clip"]
    assert right.stages["clip"].values == pytest.approx([0.6, 0.8])


def test_a_scale_far_too_small_departs_and_dynamic_scaling_brings_it_back():
    keys = {"schedule": "constant", "steps": 2000, "compute_dtype": "float16", "loss_scale": 2.0**-20}
    exact = fit(Settings(schedule="constant", steps=2000)).record["loss"][-100:].mean()
    lost = fit(Settings(loss_scaling="static", **keys)).record["loss"][-100:].mean()
    found = fit(Settings(loss_scaling="dynamic", **keys)).record["loss"][-100:].mean()
    assert lost > 20 * exact
    assert found < 3 * exact


def test_microbatch_clipping_is_the_same_under_a_scale():
    keys = {"task": "linear", "clip": "global_norm", "clip_at": "microbatch", "clip_threshold": 0.5, "steps": 20}
    plain, scaled = fit(Settings(**keys)), fit(Settings(loss_scaling="static", loss_scale=256, **keys))
    np.testing.assert_allclose(scaled.params["w"], plain.params["w"], rtol=1e-5)
    assert plain.record["clipped"].any()
    np.testing.assert_array_equal(plain.record["clipped"], scaled.record["clipped"])
