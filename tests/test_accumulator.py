"""The accumulator's own number format: float16 and bfloat16 sums as NumPy adds them, one after the other."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from lab import Settings, fit
from lab.findings import of_update
from lab.microscope import all_microbatches, first_of
from lab.plan import Plan
from lab.step import update

NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def running_totals(gradients: list[float], dtype: str, **keys) -> list[float]:
    settings = Settings(task="hand", gradients="/".join(map(str, gradients)), accumulator_dtype=dtype, steps=1, **keys)
    return [float(m.running_total.values[0]) for m in fit(settings).at(0).microbatches]


@pytest.mark.parametrize("dtype", NUMPY)
def test_running_totals_are_what_numpy_adds_in_that_format(dtype):
    gradients = np.round(np.random.default_rng(3).normal(size=40) * 100, 3).tolist()
    total, expected = NUMPY[dtype](0), []
    for gradient in gradients:
        total = NUMPY[dtype](total + np.float32(gradient).astype(NUMPY[dtype]))
        expected.append(float(total))
    assert running_totals(gradients, dtype) == expected


@pytest.mark.parametrize(("dtype", "stop"), [("bfloat16", 256), ("float16", 512), ("float32", 512)])
def test_a_sum_of_512_ones_stops_at_256_in_bfloat16(dtype, stop):
    settings = Settings(task="hand", gradients="/".join(["1"] * 512), accumulator_dtype=dtype, learning_rate=1, steps=1)
    assert fit(settings).params["w"].tolist() == [1 - stop / 512]


def test_float16_stops_at_2048():
    assert running_totals([2048, 1, 1, 1, 1], "float16") == [2048] * 5
    assert running_totals([2048, 1, 1, 1, 1], "float32") == [2048, 2049, 2050, 2051, 2052]


def test_what_the_accumulator_lost_is_said_with_the_cure():
    run = fit(Settings(task="hand", gradients="/".join(["1"] * 512), accumulator_dtype="bfloat16", steps=1))
    (finding,) = of_update(run.at(0))
    assert finding.level == "warning"
    assert "The bfloat16 accumulator rounds" in finding.text
    assert "total ends at norm 256" in finding.text
    assert "50 % off" in finding.text
    assert "accumulator_dtype=float32" in finding.text


@pytest.mark.parametrize("dtype", NUMPY)
def test_the_carry_of_the_scan_really_has_that_format(dtype):
    plan = Plan(Settings(task="scalar", accumulator_dtype=dtype, steps=1))
    inputs, examples = plan.inputs(0, plan.start), all_microbatches(plan.inputs(0, plan.start).examples)
    traced = jax.make_jaxpr(lambda state: update(inputs.recipe, inputs.numbers, inputs.rate, state, examples)[0])
    (scan,) = [eqn for eqn in traced(first_of(plan.start)).eqns if eqn.primitive.name == "scan"]
    assert scan.outvars[0].aval.dtype == jnp.dtype(dtype)


@pytest.mark.parametrize(
    ("dtype", "least", "most"), [("float32", 0, 2e-6), ("float16", 1e-5, 5e-3), ("bfloat16", 1e-4, 4e-2)]
)
def test_the_error_on_digits_is_that_of_the_format(dtype, least, most):
    error = fit(Settings(accumulator_dtype=dtype, microbatches=32, steps=1)).at(0).agreement.relative_error
    assert least <= error <= most


@pytest.mark.parametrize("reduction", ["mean", "sum", "mean_of_means", "sum_of_means"])
@pytest.mark.parametrize("at", ["update", "microbatch"])
def test_every_reduction_and_clip_works_in_float16(reduction, at):
    keys = {"task": "linear", "reduction": reduction, "clip": "global_norm", "clip_at": at, "steps": 3}
    half, full = (fit(Settings(**keys, accumulator_dtype=dtype)) for dtype in ("float16", "float32"))
    np.testing.assert_allclose(half.params["w"], full.params["w"], rtol=2e-2, atol=1e-3)
    assert not np.array_equal(half.params["w"], full.params["w"])
