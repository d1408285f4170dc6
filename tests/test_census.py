"""Gradient entries against a number format, and the accumulator's rounding, counted again with NumPy."""

import ml_dtypes
import numpy as np
import pytest

from lab import Settings, fit
from lab.census import BEARABLE
from lab.findings import of_census
from lab.rounding import Rounding

NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def census(gradients, **keys):
    text = "/".join(f"{g:.9g}" for g in gradients)
    return fit(Settings(task="hand", gradients=text, steps=1, compute_dtype="float16", **keys)).census(0)


@pytest.mark.parametrize("power", [-12, 0, 7, 15, 24])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_shares_are_what_numpy_counts(power, dtype):
    gradients = np.float32(10.0) ** np.random.default_rng(7).uniform(-12, 4, 200).astype(np.float32)
    text = "/".join(f"{g:.9g}" for g in gradients)
    run = fit(
        Settings(
            task="hand", gradients=text, steps=1, compute_dtype=dtype, loss_scaling="static", loss_scale=2.0**power
        )
    )
    found = run.census(0)
    with np.errstate(over="ignore"):
        rounded = (gradients * np.float32(2.0**power)).astype(NUMPY[dtype]).astype(np.float32)
    assert found.total == 200
    assert found.flushed == pytest.approx((rounded == 0).mean())
    assert found.overflowed == pytest.approx(np.isinf(rounded).mean())
    want = np.bincount(np.floor(np.log2(gradients)).astype(int) + 127, minlength=256)
    assert found.entries.tolist() == want.tolist()
    assert found.exponents[[0, -1]].tolist() == [-127, 128]


@pytest.mark.parametrize("largest", [0.5, 3.0, 900.0, 60000.0])
def test_the_best_scale_is_the_smallest_that_flushes_little_and_overflows_nothing(largest):
    gradients = np.geomspace(1e-9, largest, 120).astype(np.float32)
    found = census(gradients)

    def lost(scale):
        with np.errstate(over="ignore"):
            rounded = (gradients * np.float32(scale)).astype(np.float16)
        return (rounded == 0).mean(), np.isinf(rounded).any()

    fitting = [2.0**k for k in range(25) if not lost(2.0**k)[1]]
    good = [scale for scale in fitting if lost(scale)[0] <= BEARABLE]
    assert found.best_scale == (good[0] if good else fitting[-1])
    assert found.flushed_at_best == pytest.approx(lost(found.best_scale)[0])


def test_gradients_that_only_a_smaller_scale_can_hold():
    assert census([60000.0, 100000.0, 1.0]).best_scale == 0.5


def test_what_is_lost_is_said_with_the_scale_that_saves_it():
    gradients = [1e-9] * 38 + [1e-2] * 62
    found = census(gradients)
    told = of_census(found)
    assert told is not None
    assert told.level == "warning"
    assert told.text == (
        "38 % of the gradient's entries are below float16's smallest number and become 0; a loss scale of 2^5 brings "
        "back all of them."
    )
    assert np.float16(1e-9 * 32) > 0
    assert np.float16(1e-9 * 16) == 0
    mended = census(gradients, **told.cure)
    assert mended.flushed == 0
    ok = of_census(mended)
    assert ok is not None
    assert ok.level == "ok"


def test_the_recommended_scale_really_trains_without_overflow():
    run = fit(Settings(compute_dtype="float16", loss_scaling="static", loss_scale=2.0**-20, steps=50))
    told = of_census(run.census(49))
    assert told is not None
    update = fit(run.settings.replace(**told.cure)).at(0)
    assert update.broke is None


def test_without_half_precision_float16_is_asked_about_as_a_question():
    run = fit(Settings(steps=3))
    assert run.census(0).dtype == "float16"
    assert run.census(0).loss_scale == 1


def test_a_gradient_that_is_not_finite_is_not_counted():
    broken = fit(Settings(task="hand", gradients="1/nan", steps=1)).census(0)
    assert broken.broken
    assert of_census(broken) is None


def numpy_totals(gradients: np.ndarray, dtype: str, count: int) -> float:
    """The accumulated sum over `count` groups of neighbours."""
    total = NUMPY[dtype](0)
    for group in np.split(gradients, count):
        total = NUMPY[dtype](total + group.sum(dtype=np.float32).astype(NUMPY[dtype]))
    return float(total)


def test_rounding_is_what_numpy_accumulates():
    gradients = np.random.default_rng(5).integers(1, 64, 64).astype(np.float32)
    text = "/".join(f"{g:g}" for g in gradients)
    found = fit(Settings(task="hand", gradients=text, steps=1)).rounding(0)
    assert isinstance(found, Rounding)
    assert found.counts.tolist() == [1, 2, 4, 8, 16, 32, 64]
    for dtype, errors in found.errors.items():
        want = [abs(numpy_totals(gradients, dtype, int(n)) / float(gradients.sum()) - 1) for n in found.counts]
        np.testing.assert_allclose(errors, want, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("dtype", "least", "most"), [("float16", 3, 5e-3), ("bfloat16", 3, 4e-2)])
def test_the_error_of_a_narrow_accumulator_grows_with_the_microbatches(dtype, least, most):
    found = fit(Settings(steps=1)).rounding(0)
    errors = found.errors[dtype]
    assert errors[-1] > least * errors[0]
    assert errors[found.counts <= 32].max() < most
    assert found.errors["float32"].max() < 2e-6
    assert (errors > 50 * found.errors["float32"]).all()
