"""Half precision against NumPy's own float16 and bfloat16, and the mistakes people make with it (traps, family D)."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from lab import Settings, fit
from lab.choices import DTYPES, OPTIMIZERS
from lab.diagnosis import diagnose
from lab.findings import of_run
from lab.microscope import all_microbatches, first_of
from lab.plan import Plan
from lab.precision import format_of
from lab.step import update
from lab.task import Context
from lab.tasks.classifier import functions

NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
HALVES = ("float16", "bfloat16")


def hand(gradients: str, **keys):
    return fit(Settings(task="hand", gradients=gradients, **{"learning_rate": 1, "steps": 1, **keys}))


def added(run) -> list[float]:
    """What each microbatch of the first update added to the accumulator."""
    return [float(m.adds.values[0]) for m in run.at(0).microbatches]


def half_precision_sgd(settings: Settings, x, y) -> tuple[list[float], list[float]]:
    """Losses and parameters of task=scalar by NumPy, one example a microbatch, each operation in its own format."""
    compute, param, total_in = (
        NUMPY[dtype] for dtype in (settings.compute_dtype, settings.param_dtype, settings.accumulator_dtype)
    )
    scale = np.float32(settings.loss_scale if settings.loss_scaling == "static" else 1)
    w, losses, params = param(float(settings.w)), [], []
    for _ in range(settings.steps):
        total, loss = total_in(0), np.float32(0)
        for one_x, one_y in zip(x, y, strict=True):
            narrow = compute(w)
            error = np.float32(compute(narrow * compute(one_x))) - np.float32(one_y)
            loss += error * error
            back = compute(np.float32(2) * error * scale)
            gradient = compute(back * compute(one_x))
            total = total_in(total + total_in(gradient))
        mean = np.float32(total) / np.float32(len(x)) / scale
        step = param(np.float32(-settings.learning_rate) * np.float32(param(mean)))
        w = param(w + step)
        losses.append(float(loss / np.float32(len(x))))
        params.append(float(w))
    return losses, params


@pytest.mark.parametrize("accumulator_dtype", DTYPES)
@pytest.mark.parametrize("param_dtype", DTYPES)
@pytest.mark.parametrize("compute_dtype", DTYPES)
@pytest.mark.parametrize("scale", [None, 64.0])
def test_a_run_is_what_numpy_computes_in_those_formats(compute_dtype, param_dtype, accumulator_dtype, scale):
    x, y = [0.3, 1.7, -2.1, 0.9], [1.1, -0.4, 0.2, 2.3]
    settings = Settings(
        task="scalar", xs=",".join(map(str, x)), ys=",".join(map(str, y)), w="1.3", microbatches=4, steps=12,
        learning_rate=0.07, compute_dtype=compute_dtype, param_dtype=param_dtype, accumulator_dtype=accumulator_dtype,
        loss_scaling="static" if scale else "none", **({"loss_scale": scale} if scale else {}),
    )  # fmt: skip
    losses, params = half_precision_sgd(settings, x, y)
    run = fit(settings)
    exact = "float32" not in (compute_dtype, param_dtype)
    rtol = 0 if exact else 3e-6
    np.testing.assert_allclose(run.record["loss"], losses, rtol=max(rtol, 3e-7))
    np.testing.assert_allclose([float(run.state(k).params["w"]) for k in range(1, 13)], params, rtol=rtol)


@pytest.mark.parametrize("param_dtype", DTYPES)
@pytest.mark.parametrize("compute_dtype", DTYPES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_program_computes_in_the_formats_that_were_asked_for(compute_dtype, param_dtype, optimizer):
    plan = Plan(Settings(compute_dtype=compute_dtype, param_dtype=param_dtype, optimizer=optimizer, steps=1))
    inputs, start = plan.inputs(0, plan.start), first_of(plan.start)
    examples = all_microbatches(inputs.examples)

    def step(state):
        return update(inputs.recipe, inputs.numbers, inputs.rate, state, examples)

    jaxpr = jax.make_jaxpr(step)(start)
    products = [eqn for eqn in equations(jaxpr.jaxpr) if eqn.primitive.name == "dot_general"]
    assert len(products) == 8, "three layers forwards, three weights and two layers backwards"
    for product in products:
        dtypes = {str(v.aval.dtype) for v in (*product.invars, *product.outvars)}
        assert dtypes == {compute_dtype}
    after, _, seen = jax.eval_shape(step, start)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(after.params)} == {param_dtype}
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(after.optimizer) if leaf.dtype != jnp.int32} <= {param_dtype}
    assert jax.tree.map(lambda x: x.dtype, after) == jax.tree.map(lambda x: x.dtype, start)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(seen.reduced)} == {"float32"}


def equations(jaxpr):
    """All equations, those of inner programs included."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for inner in value if isinstance(value, list | tuple) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_compiled_program_multiplies_in_the_format_too(dtype):
    plan = Plan(Settings(compute_dtype=dtype, steps=1))
    inputs, examples = plan.inputs(0, plan.start), all_microbatches(plan.inputs(0, plan.start).examples)
    lowered = jax.jit(lambda s: update(inputs.recipe, inputs.numbers, inputs.rate, s, examples)).lower(
        first_of(plan.start)
    )
    short = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    products = [line for line in lowered.as_text().splitlines() if "dot_general" in line]
    assert products
    for line in products:
        assert line.rsplit("->", 1)[1].strip().split("x")[-1].startswith(f"{short}>")


@pytest.mark.parametrize("dtype", DTYPES)
def test_formats_are_those_of_numpy(dtype):
    about, want = format_of(dtype), ml_dtypes.finfo(NUMPY[dtype])
    assert about.largest == float(want.max)
    assert about.smallest_normal == float(want.smallest_normal)
    assert about.smallest == float(want.smallest_subnormal)
    assert NUMPY[dtype](about.smallest) > 0
    assert NUMPY[dtype](about.smallest / 2) == 0


def test_small_gradients_become_zero_in_float16_and_a_scale_keeps_them():
    small = "1e-8/2.9e-8/3e-8/6e-8"
    assert added(hand(small, compute_dtype="float16")) == [0, 0, 2.0**-24, 2.0**-24]
    scaled = hand(small, compute_dtype="float16", loss_scaling="static", loss_scale=2.0**15)
    assert np.array(added(scaled)) / 2**15 == pytest.approx([1e-8, 2.9e-8, 3e-8, 6e-8], rel=1e-3)
    assert float(hand("1e-8", compute_dtype="float16", loss_scaling="static").at(0).stages["unscale"].values[0]) == (
        pytest.approx(9.9972e-09, rel=1e-4)
    )


def test_a_sum_beyond_float16_overflows_where_the_mean_would_fit():
    run = hand("60000/60000", accumulator_dtype="float16")
    assert run.at(0).broke == ("accumulate", "w", 1, 0)
    assert float(hand("60000/60000").at(0).stages["reduce_microbatches"].values[0]) == 60000
    told = diagnose(run)
    assert told is not None
    assert "accumulator of microbatch 2 of 2" in told.text
    assert "65,504" in told.text
    assert told.cure == {"accumulator_dtype": "float32"}
    mended = fit(run.settings.replace(**told.cure))
    assert mended.record["finite"].all()


def test_the_loss_is_scaled_in_float32():
    run = hand("0.001", w="4000", compute_dtype="float16", loss_scaling="static", loss_scale=2.0**15)
    assert run.record["loss"][0] == pytest.approx(4)
    assert run.record["finite"].all()
    with np.errstate(over="ignore"):
        assert np.float16(4) * np.float16(2**15) == np.inf
    assert float(run.at(0).stages["unscale"].values[0]) == pytest.approx(0.001, rel=1e-3)


def test_cross_entropy_of_half_precision_logits_is_finite_and_right():
    params = [{"weight": jnp.zeros((64, 10), jnp.float16), "bias": jnp.array([0, 20] + [-30] * 8, jnp.float16)}]
    batch, loss = {"x": jnp.zeros((1, 64)), "y": jnp.zeros(1, jnp.int32)}, functions("none").loss
    loss, gradient = jax.value_and_grad(lambda p: loss(p, batch, Context(jnp.ones(1, bool))).each.sum())(params)
    assert float(loss) == pytest.approx(20)
    assert gradient[0]["bias"][:2].tolist() == pytest.approx([-1, 1], abs=1e-3)
    assert gradient[0]["bias"].dtype == jnp.float16


@pytest.mark.parametrize(
    ("dtype", "rate", "steps", "right"), [("bfloat16", 6e-4, 100, 0.94), ("float16", 1e-4, 1000, 0.9)]
)
def test_a_weight_of_one_never_moves_in_half_precision(dtype, rate, steps, right):
    keys = {"learning_rate": rate, "steps": steps}
    stuck = hand("1", param_dtype=dtype, **keys)
    assert float(stuck.params["w"][0]) == 1
    assert stuck.record["unmoved"].tolist() == [1] * steps
    assert float(hand("1", **keys).params["w"][0]) == pytest.approx(right, rel=1e-4)
    assert float(hand("1", compute_dtype=dtype, **keys).params["w"][0]) == pytest.approx(right, rel=1e-4)
    (finding,) = [f for f in of_run(stuck) if "could not move" in f.text]
    assert finding.text.startswith("In an average update 100 % of the parameters")
    assert finding.cure == {"param_dtype": "float32"}


def test_a_parameter_whose_update_is_zero_is_not_counted_as_stuck():
    assert hand("0", param_dtype="float16", steps=5).record["unmoved"].tolist() == [0] * 5


@pytest.mark.parametrize(("gradient", "wrong", "right"), [("0", np.nan, 0), ("1e-4", -np.inf, -0.099989)])
def test_adam_with_float16_parameters_divides_by_zero_and_says_so(gradient, wrong, right):
    keys = {"w": "0", "optimizer": "adam", "learning_rate": 0.1}
    run = hand(gradient, param_dtype="float16", **keys)
    np.testing.assert_equal(float(run.params["w"][0]), wrong)
    assert run.record["finite"].tolist() == [False]
    assert run.at(0).broke == ("optimizer", "w", None, 0)
    told = diagnose(run)
    assert told is not None
    assert "First not finite in update 0, in the optimizer, tensor w" in told.text
    assert "epsilon 1e-8 is 0" in told.text
    assert float(np.float16(1e-8)) == 0
    assert told.cure == {"param_dtype": "float32"}
    assert float(fit(run.settings.replace(**told.cure)).params["w"][0]) == pytest.approx(right, rel=1e-4)


def test_adam_with_bfloat16_parameters_starts_right_and_never_forgets():
    keys = {"w": "0", "optimizer": "adam", "learning_rate": 0.1}
    assert float(hand("1", param_dtype="bfloat16", **keys).params["w"][0]) == pytest.approx(-0.1, rel=4e-3)
    run = hand("1", param_dtype="bfloat16", steps=20, **keys)
    second = [float(run.state(k).optimizer.nu[0]) for k in range(21)]
    total = NUMPY["bfloat16"](0)
    for k in range(21):
        assert second[k] == float(total), "nothing is forgotten: the plain sum of 0.001 g^2"
        total = NUMPY["bfloat16"](total + NUMPY["bfloat16"](0.001))
    assert any("0.999 is 1 in bfloat16" in finding.text for finding in of_run(run))
    assert float(NUMPY["bfloat16"](0.999)) == 1


def test_a_break_is_found_in_the_update_that_made_it():
    run = fit(Settings(param_dtype="float16", steps=5))
    assert run.record["finite"].tolist() == [False] * 5
    assert run.at(0).broke == ("optimizer", "0.bias", None, 0)
    assert run.at(1).broke == ("before", "0.bias", None, 0)
    forward = hand("1e30", w="1e30", steps=3)
    assert forward.at(0).broke == ("loss", None, 0, 0)
    typed = diagnose(hand("1/nan"))
    assert typed is not None
    assert "numbers typed" in typed.text
    assert typed.cure == {}
    assert diagnose(hand("1")) is None


def test_a_static_scale_too_large_breaks_the_backward_pass_and_dynamic_scaling_cures_it():
    run = fit(Settings(compute_dtype="float16", loss_scaling="static", steps=3))
    broke = run.at(0).broke
    assert broke is not None
    assert (broke.stage, broke.microbatch) == ("backward", 0)
    told = diagnose(run)
    assert told is not None
    assert "loss scale 2^15" in told.text
    cured = fit(run.settings.replace(**told.cure, steps=20))
    assert diagnose(cured) is None
    assert cured.record["finite"][-1]


def test_divergence_in_float32_is_put_down_to_the_rate():
    told = diagnose(fit(Settings(task="linear", learning_rate=100, steps=50)))
    assert told is not None
    assert told.cure == {"learning_rate": "10"}


@pytest.mark.parametrize("dtype", HALVES)
def test_large_microbatches_are_divided_in_float32(dtype):
    gradients = ",".join(["1"] * 301)
    run = hand(gradients, compute_dtype=dtype, accumulator_dtype=dtype, reduction="mean_of_means")
    want = NUMPY[dtype](np.float32(NUMPY[dtype](301)) / np.float32(301))
    assert added(run) == [float(want)]
