"""Names: the same data everywhere, a transformer as NumPy has it, and tokens that are counted and not names."""

import hashlib
import unicodedata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lab import Settings, fit, microscope, tasks, transformer
from lab.batches import stream
from lab.findings import of_run, of_update
from lab.opened import Update
from lab.plan import Plan
from lab.run import Run
from lab.task import Batch, Context, Params
from lab.tasks import names

CLASSES = 39
FEW = ("SNOWMAN", "SPACE", "XOR", "LATIN SMALL LETTER F", "X" * 23)


@pytest.fixture(scope="module")
def learned() -> Run:
    return fit(Settings(task="names"))


def some(seed: int = 0, width: int = 12, layers: int = 2) -> Params:
    """Parameters away from where a run starts: gains that are not 1, scores that are not near 0."""
    params = transformer.init(jax.random.key(seed), CLASSES, names.PLACES, width, layers)
    draw = np.random.default_rng(seed)
    return jax.tree.map(lambda x: x + jnp.asarray(0.3 * draw.standard_normal(x.shape), x.dtype), params)


def some_names(*spelled: str) -> dict[str, jax.Array]:
    return {name: jnp.asarray(array) for name, array in names.arrays(spelled or FEW).items()}


@jax.jit
def losses(params: Params, batch: Batch) -> tuple[jax.Array, jax.Array]:
    return names.loss(params, batch, Context(jnp.ones(len(batch["x"]), bool)))[:2]


gradient = jax.jit(jax.grad(lambda params, batch: losses(params, batch)[0].sum()))
"""Of the sum of the losses of all names."""


def normed(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * gain


def by_hand(params: Params, name: str) -> list[float]:
    """-log of the probability of every character of one name and of its stop, place by place in float64."""
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    alphabet = "\n -0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    right = [alphabet.index(character) for character in name + "\n"]
    stream = [p["tokens"][token] + p["places"][t] for t, token in enumerate([0, *right[:-1]])]
    for block in p["blocks"]:
        inside = [normed(x, block["attention_gain"]) @ block["query_key_value"] for x in stream]
        queries, keys, values = (np.stack([v[part : part + 32] for v in inside]) for part in (0, 32, 64))
        for t in range(len(stream)):
            taken = []
            for head in (slice(0, 16), slice(16, 32)):
                match = np.exp([queries[t, head] @ keys[k, head] / 4 for k in range(t + 1)])
                taken.append((match / match.sum()) @ values[: t + 1, head])
            stream[t] = stream[t] + np.concatenate(taken) @ block["attention_out"]
        for t, x in enumerate(stream):
            hidden = np.maximum(normed(x, block["perceptron_gain"]) @ block["perceptron_in"], 0)
            stream[t] = x + hidden @ block["perceptron_out"]
    told = []
    for x, token in zip(stream, right, strict=True):
        likely = np.exp(normed(x, p["gain"]) @ p["scores"])
        told.append(-np.log(likely[token] / likely.sum()))
    return told


def first_batch(size: int) -> list[str]:
    """The names of the first update, in the order they are dealt."""
    task = tasks.load(Settings(task="names"))
    return [names.text(task.train["x"][k]) for k in stream(task, 0, size, 0, 1)]


def opened(**keys: Any) -> Update:
    plan = Plan(Settings(task="names", **keys))
    return microscope.look(plan.inputs(0, plan.start), plan.start, 0)


def test_the_names_are_the_same_on_every_python():
    assert len(names.words()) == 2393 == len(set(names.words()))
    digest = hashlib.sha256("\n".join(names.words()).encode()).hexdigest()
    assert digest == "4e10adc23d64636853c85c3d4bcba263cde7485cee375e97e523f17a3fdda00f"
    every = names.arrays(names.words())
    digest = hashlib.sha256(every["x"].astype("<i4").tobytes() + every["tokens"].astype("<i4").tobytes()).hexdigest()
    assert digest == "819f788d9a9cd0a82b378c5d67b64b4cc5afc09bb6def4b91cc4a935c9a9be4f"


def test_they_are_what_unicode_calls_these_characters_still():
    today = {unicodedata.name(chr(k), "") for k in [*range(0x20, 0x1200), *range(0x2000, 0x2800)]}
    assert set(names.words()) < today and {"SNOWMAN", "XOR", "THAI CHARACTER KO KAI"} < set(names.words())
    assert set("".join(names.words())) < set(" -0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert {len(name) for name in names.words()} == set(range(3, 24))


def test_every_fifth_name_is_held_out_and_all_can_be_read_back():
    task = tasks.load(Settings(task="names"))
    assert task.held_out is not None and task.sizes is not None and task.unit == "token"
    train, held_out = ([names.text(row) for row in part["x"]] for part in (task.train, task.held_out))
    assert held_out == list(names.words()[4::5])
    assert train == [name for k, name in enumerate(names.words()) if k % 5 < 4]
    assert task.train["tokens"].tolist() == task.sizes.tolist() == [len(name) + 1 for name in train]
    for part in (task.train, task.held_out):
        places = np.arange(24)[None, :]
        assert part["x"].shape[1] == 24 and part["x"].dtype == part["tokens"].dtype == np.int32
        np.testing.assert_array_equal(part["x"] > 0, places < part["tokens"][:, None] - 1)


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_the_transformer_agrees_with_numpy(layers):
    params, batch = some(layers, layers=layers), some_names()
    each = np.asarray(names.token_losses(params, batch))
    for row, name in zip(each, FEW, strict=True):
        np.testing.assert_allclose(row[: len(name) + 1], by_hand(params, name), rtol=2e-5, atol=1e-6)
        assert not row[len(name) + 1 :].any()
    sums, weights = losses(params, batch)
    np.testing.assert_allclose(sums, [sum(by_hand(params, name)) for name in FEW], rtol=1e-5)
    assert weights.tolist() == [8, 6, 4, 21, 24] and sums.dtype == weights.dtype == np.float32


def test_it_agrees_in_float64_to_the_last_digits_and_so_does_its_slope():
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), some(3))
    draw = np.random.default_rng(4)
    way = jax.tree.map(lambda leaf: draw.standard_normal(leaf.shape), params)
    with jax.enable_x64(True):
        sums, _ = losses(params, some_names())
        found = jax.tree.leaves(gradient(params, some_names()))
        slope = sum(np.sum(g * w) for g, w in zip(found, jax.tree.leaves(way), strict=True))
    np.testing.assert_allclose(sums, [sum(by_hand(params, name)) for name in FEW], rtol=1e-12)

    def at(far: float) -> float:
        there = jax.tree.map(lambda leaf, w: leaf + far * w, params, way)
        return sum(sum(by_hand(there, name)) for name in FEW)

    assert (at(1e-6) - at(-1e-6)) / 2e-6 == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("filling", [1, 38, -1, -100, 39, 2**31 - 1])
def test_what_fills_the_places_after_a_name_changes_nothing(filling):
    params, batch = some(), some_names()
    there = jnp.arange(24)[None, :] < batch["tokens"][:, None]
    filled = {**batch, "x": jnp.where(there, batch["x"], filling)}
    assert (filled["x"] != batch["x"]).any()
    for one, other in zip(losses(params, batch), losses(params, filled), strict=True):
        np.testing.assert_array_equal(one, other)
    jax.tree.map(np.testing.assert_array_equal, gradient(params, batch), gradient(params, filled))


def test_a_place_sees_those_before_it_and_no_other():
    params, batch = some(), some_names()
    before = np.asarray(names.scores(params, batch["x"]))
    after = np.asarray(names.scores(params, batch["x"].at[:, 7].set(20)))
    np.testing.assert_array_equal(before[:, :8], after[:, :8])
    assert (before[:, 8:] != after[:, 8:]).any(axis=2).all()


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_a_name_of_no_tokens_costs_nothing_and_its_gradient_is_zero(dtype):
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), some())
    nothing = {"x": jnp.full((3, 24), -100, jnp.int32), "tokens": jnp.zeros(3, jnp.int32)}
    assert [x.tolist() for x in losses(params, nothing)] == [[0, 0, 0]] * 2
    assert all((leaf == 0).all() and leaf.dtype == dtype for leaf in jax.tree.leaves(gradient(params, nothing)))


def test_a_name_costs_the_same_beside_others():
    params = some()
    together, _ = losses(params, some_names())
    alone = [losses(params, some_names(name))[0][0] for name in FEW]
    np.testing.assert_allclose(together, alone, rtol=1e-6)


def test_the_first_loss_is_near_that_of_a_guess():
    task = tasks.load(Settings(task="names"))
    for seed in range(5):
        each, weights = losses(task.init(jax.random.key(seed)), task.train)
        assert float(each.sum() / weights.sum()) == pytest.approx(np.log(CLASSES), abs=0.05)


def test_it_learns_more_than_how_frequent_the_characters_are(learned):
    train, held_out = learned.task.train, learned.task.held_out
    counts = np.zeros(CLASSES)
    for row, tokens in zip(train["x"], train["tokens"], strict=True):
        np.add.at(counts, row[:tokens], 1)
    frequent = counts / counts.sum()
    entropy = -(frequent * np.log(np.where(frequent, frequent, 1))).sum()
    assert 2.5 < entropy < np.log(CLASSES)
    assert learned.final["held_out_loss"] < 0.55 * entropy and "held_out_accuracy" not in learned.final
    each, weights = losses(learned.params, held_out)
    assert learned.final["held_out_loss"] == pytest.approx(float(each.sum() / weights.sum()), rel=1e-5)


@pytest.mark.parametrize(
    ("microbatches", "devices"),
    [
        (8, 1), (2, 4), (32, 8),
        *[pytest.param(*cut, marks=pytest.mark.slow) for cut in ((1, 1), (4, 1), (32, 1))],
        *[pytest.param(*cut, marks=pytest.mark.slow) for cut in ((16, 2), (1, 8), (8, 8))],
    ],
)  # fmt: skip
def test_the_mean_is_the_gradient_of_the_whole_batch_however_it_is_cut(microbatches, devices):
    update, pieces = opened(microbatches=microbatches, devices=devices), microbatches * devices
    assert update.agreement.relative_error < 2e-6 and update.broke is None
    weights = [m.weight for m in update.microbatches]
    assert sum(weights) == sum(len(name) + 1 for name in first_batch(64))
    # 64 names leave most of 256 microbatches without any: they count for nothing, and for one each in a mean of means.
    assert len(weights) == pieces and weights.count(0) == max(0, pieces - 64)
    assert (update.reduction_agreement["mean_of_means"].relative_error > 0.5) == (pieces > 64)


def test_the_mean_of_means_is_not_and_less_so_where_lengths_are_sorted():
    both = [opened(order=order) for order in ("shuffled", "sorted")]
    assert all(update.agreement.relative_error < 2e-6 for update in both)
    shuffled, in_order = (update.reduction_agreement["mean_of_means"].relative_error for update in both)
    assert 0.02 < shuffled < 0.04 and 0.08 < in_order < 0.1  # the numbers of the README


def test_microbatches_weigh_their_tokens_and_padding_weighs_nothing():
    keys: dict[str, Any] = dict(reduction="mean_of_means", batch_size=60)
    params = microscope.first_of(Plan(Settings(task="names", **keys)).start.params)
    in_order = opened(**keys, order="sorted")
    batch = sorted(first_batch(60), key=len)
    # Sixty names in eight microbatches: the last has four, and four places that repeat one of them.
    cut = [batch[k : k + 8] for k in range(0, 60, 8)]
    weights = [m.weight for m in in_order.microbatches]
    assert weights == [sum(len(name) + 1 for name in own) for own in cut]
    costs = [sum(sum(by_hand(params, name)) for name in own) for own in cut]
    np.testing.assert_allclose([m.loss_sum for m in in_order.microbatches], costs, rtol=1e-5)
    (finding,) = of_update(in_order)
    assert f"of {min(weights):g} to {max(weights):g} tokens" in finding.text
    assert "a token in the smallest" in finding.text
    total = in_order._replace(reduction="sum", agreement=in_order.reduction_agreement["sum"])
    assert f"it adds {sum(weights):,g} tokens and divides by none" in of_update(total)[0].text


def test_the_loss_of_an_update_is_that_of_a_token(learned):
    batch = first_batch(64)
    costs = [sum(by_hand(learned.state(0).params, name)) for name in batch]
    loss = sum(costs) / sum(len(name) + 1 for name in batch)
    assert learned.record["loss"][0] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_half_precision_learns_the_same(learned, dtype):
    run = fit(Settings(task="names", compute_dtype=dtype))
    assert run.record["finite"].all()
    assert run.final["held_out_loss"] == pytest.approx(learned.final["held_out_loss"], rel=0.05)


def test_names_are_made_up(learned):
    made = names.samples(learned.params, 1, 8, 0.5)
    assert len(made) == 8 == len(set(made)) and made == names.samples(learned.params, 1, 8, 0.5)
    assert made != names.samples(learned.params, 2, 8, 0.5)
    assert all(len(name) <= 24 and "\n" not in name for name in made)
    known = {word for name in names.words() for word in name.split()}

    def spelled_right(params: Params) -> float:
        written = [word for name in names.samples(params, 3, 100, 0.5) for word in name.split()]
        return sum(word in known for word in written) / len(written)

    assert spelled_right(learned.params) > 0.6 > 0.2 > spelled_right(learned.state(0).params)


def test_at_temperature_0_the_likeliest_name_is_made_up(learned):
    (name,) = set(names.samples(learned.params, 5, 8, 0))
    told = by_hand(learned.params, name)
    for t in range(len(name)):
        others = [by_hand(learned.params, name[:t] + other)[t] for other in " AEST"]
        assert told[t] <= min(others) + 1e-5


def test_another_seed_or_temperature_compiles_nothing(learned):
    names.samples(learned.params, 0, 8)
    params = learned.state(16).params
    with jax.no_tracing():
        names.samples(params, 9, 8, 0.3)


def test_the_run_speaks_of_tokens(learned):
    first, last = (learned.record["loss"][at] for at in (0, -1))
    assert [found.text for found in of_run(learned)] == [f"Loss per token went from {first:.3g} to {last:.3g}."]
