"""The classic exercise, held to its docstring: values by hand, every dtype, every refusal."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import microbatched_grads

X, Y = (1.0, 2.0, 3.0, 4.0), (0.0, 0.0, 0.0, 0.0)
DTYPES = (jnp.float16, jnp.bfloat16, jnp.float32)


def grads(count, w=1.0, b=0.0, x=X, y=Y, dtype=jnp.float32, of_w=jnp.float32) -> jax.Array:
    return microbatched_grads(
        jnp.asarray(w, of_w), jnp.asarray(b, of_w), jnp.asarray(x, dtype), jnp.asarray(y, dtype), count
    )


def by_hand(w, x, y) -> float:
    return 2 * sum((w * a - t) * a for a, t in zip(x, y, strict=True))


@pytest.mark.parametrize("count", [1, 2, 4, 1.0, 2.0, np.int64(2), np.float32(4), np.array(2), Fraction(2)])
def test_the_worked_example_is_60_however_it_is_cut(count):
    got = grads(count)
    assert got == 60  # 2 (1 + 4) = 10, then 2 (9 + 16) = 50 more; not their mean 30, not the mean of all four, 15
    assert got.shape == () and got.dtype == jnp.float32


@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("w", [0.5, -2.0, 0.0])
def test_targets_and_the_parameter_enter_exactly(count, w):
    x, y = (1.0, -2.0, 0.5, 4.0, 0.25, 3.0), (2.0, 1.0, -1.0, 0.5, 8.0, 0.0)
    want = by_hand(w, x, y)
    assert grads(count, w, x=x, y=y) == want
    assert grads(count, w, x=x, y=y) != grads(count, w, x=x, y=[0.0] * 6)


def test_w_stays_as_it_is_from_microbatch_to_microbatch():
    assert grads(4, w=0.25) == 15  # an update after every microbatch would give another number
    assert grads(4, w=0.25) == grads(1, w=0.25)


@pytest.mark.parametrize("b", [0.0, 7.0, float("nan"), float("inf")])
def test_b_is_not_used(b):
    assert grads(2, b=b) == 60


@pytest.mark.parametrize("of_w", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_gradient_has_the_dtype_of_w(count, dtype, of_w):
    got = grads(count, dtype=dtype, of_w=of_w)
    assert got.dtype == of_w and float(got) == 60


def test_b_may_have_another_dtype_than_w():
    got = microbatched_grads(jnp.float16(1), jnp.bfloat16(3), jnp.array(X), jnp.array(Y), 2)
    assert got.dtype == jnp.float16 and float(got) == 60


def test_float64_stays_float64():
    with jax.enable_x64(True):
        got = grads(3, w=0.1, x=[0.1] * 3, y=[0.7] * 3, dtype=jnp.float64, of_w=jnp.float64)
        assert got.dtype == jnp.float64
        assert float(got) == pytest.approx(by_hand(0.1, [0.1] * 3, [0.7] * 3), rel=1e-14)


def test_half_precision_accumulates_in_the_dtype_of_w():
    assert float(grads(4096, x=[1.0] * 4096, y=[0.5] * 4096, of_w=jnp.float16)) == 2048  # 1 + 1 + ... stops there
    assert float(grads(4096, x=[1.0] * 4096, y=[0.5] * 4096, of_w=jnp.float32)) == 4096


def test_infinities_and_not_a_number_are_not_hidden():
    assert np.isnan(grads(2, x=[1, 2, 3, np.nan]))
    assert np.isposinf(grads(2, x=[1e20, 2, 3, 4]))


jitted = jax.jit(microbatched_grads, static_argnames="n_microbatches")
eighths = st.integers(-64, 64).map(lambda n: n / 8)
twelve = st.lists(eighths, min_size=12, max_size=12)


@given(st.sampled_from([1, 2, 3, 4, 6, 12]), eighths, twelve, twelve)
def test_any_numbers_agree_with_numpy(count, w, x, y):
    got = jitted(jnp.float32(w), jnp.float32(0), jnp.array(x), jnp.array(y), n_microbatches=count)
    assert float(got) == pytest.approx(2 * np.dot(w * np.array(x) - np.array(y), x), rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("count", [1, 2, 2.0, 4])
def test_it_runs_under_jit_with_a_static_count(count):
    arguments = jnp.float32(1), jnp.float32(0), jnp.array(X), jnp.array(Y)
    assert jitted(*arguments, n_microbatches=count) == 60
    assert jitted(*arguments, count) == 60


def test_the_microbatches_are_scanned_and_equal():
    traced = jax.make_jaxpr(microbatched_grads, static_argnums=4)(1.0, 0.0, jnp.ones(12), jnp.ones(12), 3)
    (scan,) = [equation for equation in traced.eqns if equation.primitive.name == "scan"]
    assert scan.params["length"] == 3
    assert sorted(v.aval.shape for v in scan.invars if v.aval.shape) == [(3, 4), (3, 4)]  # pyright: ignore


def test_it_can_be_differentiated_and_mapped():
    second = jax.grad(lambda w: microbatched_grads(w, jnp.float32(0), jnp.array(X), jnp.array(Y), 2))(jnp.float32(1))
    assert second == 60  # 2 sum(x^2)
    each = jax.vmap(lambda w: microbatched_grads(w, jnp.float32(0), jnp.array(X), jnp.array(Y), 2))
    assert each(jnp.array([0.0, 1.0, 2.0])).tolist() == [0, 60, 120]


@pytest.mark.parametrize("count", [0, -1, -2.0, 0.5, 1.5, float("inf"), -float("inf"), float("nan"), False])
def test_a_count_that_is_no_positive_whole_number_is_refused(count):
    with pytest.raises(ValueError, match="must be a positive whole number"):
        grads(count)


@pytest.mark.parametrize("count", [3, 5, 8, 10**6, 3.0, 1e300])
def test_a_count_that_does_not_divide_is_refused(count):
    with pytest.raises(ValueError, match="must divide the 4 examples"):
        grads(count)


def test_a_count_too_large_for_a_float_is_refused_as_any_other():
    with pytest.raises(ValueError):
        grads(10**400)


@pytest.mark.parametrize("count", [None, "two", "2", b"2", [2], 2j, np.array([1, 2]), {}])
def test_a_count_that_is_no_number_is_a_type_error(count):
    with pytest.raises(TypeError, match="must be a number such as"):
        grads(count)


def test_a_traced_count_is_a_type_error_with_the_cure():
    arguments = jnp.float32(1), jnp.float32(0), jnp.array(X), jnp.array(Y)
    with pytest.raises(TypeError, match=r'traced.*jax\.jit\(microbatched_grads, static_argnames="n_microbatches"\)'):
        jax.jit(microbatched_grads)(*arguments, 2)
    with pytest.raises(TypeError, match="traced"):
        jax.vmap(lambda n: microbatched_grads(*arguments, n))(jnp.array([1, 2]))


ARGUMENTS = {"w": jnp.float32(1), "b": jnp.float32(0), "x_full": jnp.array(X), "y_full": jnp.array(Y)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"w": jnp.ones(1)}, "w: must be a real floating scalar"),
        ({"w": jnp.int32(1)}, "w: must be a real floating scalar"),
        ({"w": jnp.complex64(1)}, "w: must be a real floating scalar"),
        ({"w": jnp.bool_(True)}, "w: must be a real floating scalar"),
        ({"b": jnp.ones((1, 1))}, "b: must be a real floating scalar"),
        ({"b": jnp.int32(0)}, "b: must be a real floating scalar"),
        ({"b": jnp.complex64(0)}, "b: must be a real floating scalar"),
        ({"x_full": jnp.ones((4, 1)), "y_full": jnp.ones((4, 1))}, "must both have shape"),
        ({"x_full": jnp.float32(1), "y_full": jnp.float32(1)}, "must both have shape"),
        ({"x_full": jnp.ones(3)}, "must both have shape"),
        ({"y_full": jnp.ones(1)}, "must both have shape"),  # never broadcast
        ({"y_full": jnp.ones(8)}, "must both have shape"),
        ({"y_full": jnp.zeros(4, jnp.float16)}, "must have one real floating dtype"),
        ({"x_full": jnp.arange(4), "y_full": jnp.arange(4)}, "must have one real floating dtype"),
        ({"x_full": jnp.ones(4, "complex64"), "y_full": jnp.ones(4, "complex64")}, "must have one real floating dtype"),
        ({"x_full": jnp.ones(4, bool), "y_full": jnp.ones(4, bool)}, "must have one real floating dtype"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        microbatched_grads(**(ARGUMENTS | changes), n_microbatches=2)
    with pytest.raises(ValueError, match=words):
        jitted(**(ARGUMENTS | changes), n_microbatches=2)


def test_no_examples_have_gradient_zero():
    assert grads(2, x=[], y=[]) == 0
    assert grads(1, x=[], y=[]) == 0
