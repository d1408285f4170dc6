"""Clips against NumPy and optax, and where they stand: on the reduced gradient, or wrongly on every microbatch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import Settings, fit
from lab.clipping import CLIPS, norm

DRAW = np.random.default_rng(0)
TREE = {"a": DRAW.standard_normal((4, 3)), "b": DRAW.standard_normal(3), "c": np.array(0.7)}
WEIGHTS = {"a": DRAW.standard_normal((4, 3)), "b": np.zeros(3), "c": np.array(-2.0)}
THRESHOLDS = [1e-3, 0.3, 1.0, 2.5, 1e30]


def clip(kind: str, gradient, params=None, threshold=1.0):
    def narrow(tree):
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if np.asarray(x).dtype == float else x, tree)

    clipped = CLIPS[kind](narrow(gradient), narrow(params or gradient), jnp.float32(threshold))
    return jax.tree.map(np.asarray, clipped)


def moved(**keys) -> list[float]:
    settings = Settings(**{"task": "hand", "steps": 1, "learning_rate": 1, "w": 0, "clip": "global_norm"} | keys)
    return (-fit(settings).params["w"]).tolist()


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("kind", CLIPS)
def test_clips_agree_with_numpy(kind, threshold):
    got = jax.tree.leaves(clip(kind, TREE, WEIGHTS, threshold))
    want = oracle.clipped(kind, jax.tree.leaves(TREE), jax.tree.leaves(WEIGHTS), threshold)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("global_norm", optax.clip_by_global_norm),
        ("per_tensor", optax.clip_by_block_rms),
        ("value", optax.clip),
        ("adaptive", optax.adaptive_grad_clip),
    ],
)
def test_clips_agree_with_optax(kind, rule, threshold):
    if kind == "per_tensor":  # optax limits the root mean square of a tensor, this lab its norm
        leaves = [(name, threshold / np.sqrt(np.size(x))) for name, x in TREE.items()]
    else:
        leaves = [("abc", threshold)]
    gradient, weights = (jax.tree.map(jnp.float32, tree) for tree in (TREE, WEIGHTS))
    for names, limit in leaves:
        part, like = ({n: tree[n] for n in names} for tree in (gradient, weights))
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            want, _ = rule(limit).update(part, optax.EmptyState(), like)
        got = clip(kind, TREE, WEIGHTS, threshold)
        for n in names:
            np.testing.assert_allclose(got[n], want[n], rtol=2e-6)


@given(
    st.lists(st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False), min_size=1, max_size=6),
    st.floats(2**-20, 2**20, width=32),
)
def test_a_clip_never_lengthens_and_never_exceeds_its_threshold(entries, threshold):
    gradient = np.array(entries)
    for kind in ("global_norm", "per_tensor", "value"):
        short = clip(kind, {"w": gradient}, threshold=threshold)["w"].astype(float)
        size = np.abs(short).max() if kind == "value" else np.linalg.norm(short)
        assert size <= threshold * (1 + 1e-6) and np.all(np.abs(short) <= np.abs(gradient))
        assert np.all(short * gradient >= 0)
        if kind != "value" and np.linalg.norm(gradient) < threshold * (1 - 1e-6):
            assert short.tolist() == gradient.tolist()


@pytest.mark.parametrize("kind", CLIPS)
def test_a_zero_gradient_stays_zero_and_is_a_number(kind):
    assert clip(kind, {"w": np.zeros(3)})["w"].tolist() == [0, 0, 0]
    run = fit(Settings(task="hand", gradients="0:0/0:0", clip=kind, clip_at="microbatch", steps=2, w="1"))
    assert run.params["w"].tolist() == [1, 1] and run.record["finite"].all() and not run.record["clipped"].any()


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("kind", CLIPS)
def test_the_dtype_of_the_gradient_is_kept(kind, dtype):
    assert clip(kind, {"w": jnp.ones(3, dtype)}, {"w": jnp.ones(3, dtype)})["w"].dtype == dtype


def test_norms_of_half_precision_are_taken_in_float32():
    large, small = jnp.float16([300, 400]), jnp.float16([1e-4, 1e-4])
    assert clip("global_norm", large).tolist() == [np.float16(0.6), np.float16(0.8)] != [0, 0]
    assert clip("per_tensor", [large])[0].tolist() == [np.float16(0.6), np.float16(0.8)]
    np.testing.assert_allclose(norm(large), 500, rtol=1e-6)
    np.testing.assert_allclose(norm(small), 0.00014144, rtol=1e-4)
    np.testing.assert_allclose(norm(jnp.full((3, 3), 100, jnp.float16)), 300, rtol=1e-6)
    assert norm(large).dtype == jnp.float32


def test_a_gradient_whose_square_overflows_is_clipped_right_or_told():
    run = fit(Settings(task="hand", gradients="3e19:4e19", w="0", clip="global_norm", steps=1, learning_rate=1))
    assert not run.record["finite"][0] or np.allclose(run.params["w"], [-0.6, -0.8], rtol=1e-6)


def test_only_the_clip_by_value_turns_the_gradient():
    assert clip("value", np.array([3.0, 4.0])).tolist() == [1, 1]
    for kind in ("global_norm", "per_tensor"):
        np.testing.assert_allclose(clip(kind, np.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("gradients", "right", "wrong"),
    [
        ("2:0/0:2", [0.70711, 0.70711], [0.5, 0.5]),
        ("3:4/-3:4", [0, 1], [0, 0.8]),
        ("3:4/0:0.5", [0.5547, 0.83205], [0.3, 0.65]),
    ],
)
def test_a_clip_on_every_microbatch_is_another_clip(gradients, right, wrong):
    np.testing.assert_allclose(moved(gradients=gradients), right, rtol=2e-5)
    np.testing.assert_allclose(moved(gradients=gradients, clip_at="microbatch"), wrong, rtol=2e-5)


@pytest.mark.parametrize(
    ("reduction", "value"),
    [("mean", (1 + 3 * 0.5) / 4), ("sum", 1 + 1), ("mean_of_means", 0.75), ("sum_of_means", 1.5)],
)
def test_a_microbatch_is_clipped_as_the_mean_or_the_sum_that_it_is(reduction, value):
    got = moved(gradients="2/0.5,0.5,0.5", reduction=reduction, clip_at="microbatch", clip_threshold=1)
    np.testing.assert_allclose(got, [value], rtol=1e-6)


def test_the_clip_comes_before_the_optimizer():
    assert moved(gradients="10", learning_rate=0.1, w=1) == pytest.approx([-0.9], rel=1e-6)
    adam = moved(gradients="300:400", optimizer="adam", learning_rate=0.1)
    np.testing.assert_allclose(adam, [0.1, 0.1], rtol=1e-5)  # not 0.0707, as a clip after Adam gives


def test_an_opened_update_shows_the_gradient_before_and_after_the_clip():
    stages = fit(Settings(task="hand", gradients="2:0/0:2", w="0", clip="global_norm", steps=1)).at(0).stages
    shown = {name: stages[name].values.tolist() for name in ("accumulate", "reduce_microbatches")}
    assert shown == {"accumulate": [2, 2], "reduce_microbatches": [1, 1]}
    np.testing.assert_allclose(stages["clip"].values, [0.70711, 0.70711], rtol=2e-5)
    np.testing.assert_allclose([stages["clip"].norm, stages["update"].norm], [1, 0.1], rtol=1e-6)


def test_a_clip_on_every_microbatch_shows_in_what_each_one_adds():
    settings = Settings(task="hand", gradients="2:0/0:2", w="0", clip="global_norm", clip_at="microbatch", steps=1)
    opened = fit(settings).at(0)
    np.testing.assert_allclose([entry.adds.values for entry in opened.microbatches], [[1, 0], [0, 1]], rtol=1e-6)
    assert opened.stages["reduce_microbatches"].values.tolist() == [0.5, 0.5] != [0.44721, 0.89443]
    assert "clip" not in opened.stages and opened.agreement.relative_error == pytest.approx(0.5)


def test_both_norms_are_told():
    run = fit(Settings(task="hand", gradients="3:4", clip="global_norm", steps=3))
    np.testing.assert_allclose(run.record["grad_norm"], 5, rtol=1e-6)
    np.testing.assert_allclose(run.record["clipped_grad_norm"], 1, rtol=1e-6)
    assert run.record["clipped"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "at"), [("global_norm", "update"), ("value", "update"), ("global_norm", "microbatch")]
)
@pytest.mark.parametrize("reduction", ["mean", "mean_of_means", "sum_of_means", "sum"])
def test_a_gradient_within_the_threshold_is_not_said_to_be_clipped(kind, at, reduction):
    xs = ",".join(f"0.{digit}" for digit in "123456789")
    settings = Settings(
        task="scalar",
        xs=xs,
        ys="0.3",
        w="-1",
        microbatches=3,
        clip=kind,
        clip_at=at,
        clip_threshold=100,
        reduction=reduction,
    )
    run, free = fit(settings.replace(steps=50)), fit(settings.replace(steps=50, clip="none"))
    assert not run.record["clipped"].any()
    np.testing.assert_allclose(run.record["clipped_grad_norm"], free.record["grad_norm"], rtol=2e-6)


@pytest.mark.parametrize(("gradients", "share"), [("1/1/1/1", 0), ("9/1/1/1", 0.25), ("9/9/9/1", 0.75), ("9/9/9/9", 1)])
def test_the_share_of_clipped_microbatches_is_told(gradients, share):
    settings = Settings(task="hand", gradients=gradients, clip="value", clip_threshold=2, clip_at="microbatch", steps=2)
    assert fit(settings).record["clipped"].tolist() == [share, share]
