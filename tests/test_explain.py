"""What the tooltips say, against values worked out by hand, against optax's own rates, and for every key there is."""

import itertools
import re
import timeit
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from app import explain as explained
from app.explain import batch, explain, literal, optimizer, sources, task, tooltip, update
from lab import tables
from lab.choices import SCHEDULES, TASKS
from lab.schedules import rates
from lab.settings import KEYS, Settings, about_key

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

ON: dict[str, Any] = {
    "clip": "global_norm", "loss_scaling": "dynamic", "devices": 2, "steps": 40, "schedule": "warmup_cosine",
    "warmup_steps": 3, "optimizer": "adamw", "compute_dtype": "float16",
}  # fmt: skip
"""Choices that bring out nearly every key."""


def every_kind():
    """Settings of every task: the defaults, everything on, and every choice of every key on top."""
    for name in TASKS:
        yield Settings(task=name)
        on: dict[str, Any] = {**ON, "gradients": "4/2,2,2"} if name == "hand" else ON
        yield Settings(task=name, **on)
        for key in KEYS:
            for choice in about_key(key).choices if key != "task" else ():
                yield Settings.from_dict({"task": name, **on, key: choice})


ALL = list(dict.fromkeys(every_kind()))


def now(name, **keys):
    settings = Settings(**keys)
    assert name in settings.used()
    return explain(name, settings).now


def test_every_key_that_can_appear_is_explained_and_sourced():
    seen = {name for settings in ALL for name in settings.used()}
    assert seen == set(KEYS) == set(explained.SENTENCES)
    assert set(sources.SOURCES) | set(sources.SAME_AS) == set(KEYS)
    parts = (task.SENTENCES, batch.SENTENCES, optimizer.SENTENCES, update.SENTENCES)
    assert sum(map(len, parts)) == len(KEYS), "a key is explained twice"


@pytest.mark.parametrize("name", TASKS)
def test_every_sentence_ends_and_numeric_keys_name_their_number(name):
    for settings in ALL:
        if settings.task != name:
            continue
        for key in settings.used():
            what, sentence, more = explain(key, settings)
            assert what and sentence.endswith(".") and not sentence.endswith("..") and more.text
            assert sentence[0] == sentence[0].upper() and "  " not in sentence
            assert not re.search(r"(?<![\d.,])1 (update|example|microbatche|name|device|count)s", sentence), sentence
            value = getattr(settings, key)
            if KEYS[key].type is not str:
                assert any(said in sentence for said in (f"{value:,}", f"{value:,.12g}")), (key, sentence)
            assert len(sentence.split()) <= 32, sentence


VALUES = {
    "microbatches": [1, 3, 7, 64, 1000],
    "batch_size": [1, 7, 64, 150],
    "learning_rate": [0, 1e-5, 0.3, 1000],
    "weight_decay": [0, 0.03, 10],
    "clip_threshold": [1e-3, 1e30],
    "loss_scale": [1, 3, 1000, 2.0**24],
    "growth_interval": [1, 7, 200_000],
    "devices": [1, 2, 3, 8],
    "dropout": [0, 0.05, 0.95],
    "layers": [0, 1, 4],
    "width": [4, 33],
    "noise": [0, 0.333],
    "steps": [7, 1000, 200_000],
    "seed": [0, 2**31 - 1],
    "decay_steps": [0, 5, 1000],
    "decay_rate": [0.01, 1],
    "final_fraction": [0, 0.3, 1],
    "warmup_steps": [1, 4],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in VALUES.items() for value in values])
def test_a_numeric_key_names_its_number_at_its_limits_too(name, value):
    base = {"clip": "value", "loss_scaling": "dynamic", "optimizer": "lion", "schedule": "warmup_linear", "steps": 40}
    base |= {"warmup_steps": 3, "task": {"noise": "linear", "layers": "names", "width": "names"}.get(name, "digits")}
    if name == "decay_rate":
        base["schedule"] = "exponential"
    sentence = now(name, **(base | {name: value}))
    assert re.search(rf"(?<![\d.]){re.escape(f'{value:,.12g}')}(?!\d)", sentence), sentence


BY_HAND: list[tuple[str, dict[str, Any], str]] = [
    ("microbatches", {}, "The batch of 256 examples is cut into 8 microbatches of 32."),
    # 250 = 7 x 32 + 26
    ("microbatches", {"batch_size": 250},
     "The batch of 250 examples is cut into 8 microbatches, 7 of 32 and one of 26."),
    # 250 over 32 pieces: 8 each, 31 x 8 = 248, and 2
    ("microbatches", {"batch_size": 250, "devices": 4},
     "The batch of 250 examples is cut into 4 devices x 8 = 32 microbatches, 31 of 8 and one of 2."),
    # 10 over 8: 2 each, five of them, and nothing is left for three
    ("microbatches", {"batch_size": 10},
     "The batch of 10 examples is cut into 8 microbatches, 5 of 2 and 3 empty."),
    # dealt like cards 10 = 8 + 2
    ("microbatches", {"batch_size": 10, "deal": "strided"},
     "The batch of 10 examples is cut into 8 microbatches, 2 of 2 and 6 of 1."),
    ("microbatches", {"task": "hand", "gradients": "4/2,2,2"},
     "The batch of 4 examples is cut into 2 microbatches, one of 1 and one of 3."),
    ("microbatches", {"task": "hand", "gradients": "1/1,1/1/1,1,1/1"},
     "The batch of 8 examples is cut into 5 microbatches of 1 to 3."),
    ("microbatches", {"task": "names"}, "The batch of 64 names is cut into 8 microbatches of 8."),
    # 1442 / 256 = 5.6328
    ("batch_size", {}, "Each update sees 256 of 1,442 examples; 5.63 updates make an epoch."),
    ("batch_size", {"batch_size": 1442}, "Each update sees all there are, 1,442 examples: a whole epoch."),
    ("reduction", {}, "The sum of 8 microbatch gradients is divided by 256 examples."),
    ("reduction", {"reduction": "sum_of_means", "batch_size": 250},
     "8 microbatch gradients, each divided by its own 26 to 32 examples, are added and not divided by 8."),
    ("reduction", {"task": "names", "reduction": "mean_of_means"},
     "8 microbatch gradients, each divided by the tokens of its own 8 names, are added and divided by 8."),
    # devices of 8 x 8 = 64, and 250 - 3 x 64 = 58
    ("reduction", {"batch_size": 250, "devices": 4, "device_reduction": "mean"},
     "On each device the sum of 8 microbatch gradients is divided by its own 58 to 64 examples."),
    ("devices", {"batch_size": 250, "devices": 4},
     "Each of 4 devices holds 58 to 64 of 250 examples, in 8 microbatches."),
    ("device_reduction", {"devices": 2}, "The sums of 2 devices are added, then divided once by 256 examples."),
    ("device_reduction", {"devices": 2, "device_reduction": "sum"},
     "2 gradients, one a device from 128 examples, are added and not divided by 2."),
    ("deal", {"deal": "strided"}, "The first of 8 microbatches takes examples 1, 9, 17 and so on."),
    ("order", {"task": "linear"}, "A new order of 1,000 examples is drawn every 10 updates."),
    # adding 1 stops at 2^11 and 2^8
    ("accumulator_dtype", {"accumulator_dtype": "float16"},
     "Each update adds 8 microbatch gradients in float16, where adding 1 stops at 2,048."),
    ("accumulator_dtype", {"accumulator_dtype": "bfloat16", "devices": 2},
     "Each device adds 8 microbatch gradients in bfloat16, where adding 1 stops at 256."),
    ("learning_rate", {}, "The rate starts at 0.01 and ends at 0 after 300 updates."),
    ("learning_rate", {"task": "scalar"}, "The rate is 0.01 in all 20 updates."),
    ("learning_rate", {"learning_rate": 0}, "The rate is 0, so nothing moves in 300 updates."),
    ("learning_rate", {"schedule": "warmup_cosine", "final_fraction": 0.1},
     "The rate starts at 0, peaks at 0.01 after 10 updates and ends at 0.001 after 300 updates."),
    ("learning_rate", {"schedule": "linear", "decay_steps": 500},
     "The rate starts at 0.01 and ends at 0 after 500 updates; the run stops after 300."),
    # 300 counts at 8 an update
    ("schedule_counts", {"schedule_counts": "microbatches"},
     "An update is 8 counts, so that the schedule's 300 counts take 37.5 updates."),
    # the last fifth of 300 - 10 is 58, and 300 - 10 - 58 = 232
    ("schedule", {"schedule": "warmup_stable_decay"},
     "A line takes the rate from 0 to 0.01 in 10 updates; it stays for 232 updates, and another takes it to 0 "
     "in 58 updates."),
    ("schedule", {"schedule": "piecewise", "decay_rate": 0.1},
     "The rate is 0.01, times 0.1 from after 150 updates and once more from after 225 updates."),
    ("warmup_steps", {"schedule": "warmup_linear"}, "The rate climbs from 0 to 0.01 in 10 updates."),
    ("decay_steps", {}, "0 stands for the whole run: the schedule takes 300 updates."),
    ("decay_steps", {"schedule": "restarts"},
     "0 stands for a quarter of the run: a cycle takes 75 updates, and the run 300."),
    ("decay_rate", {"schedule": "staircase"}, "After 75 updates the rate is 0.01 x 0.5 = 0.005."),
    ("weight_decay", {"optimizer": "adamw"},
     "At the peak rate an update also takes 0.01 x 0.01 = 0.0001 of every parameter away."),
    ("clip_threshold", {"clip": "global_norm"}, "A gradient of norm 2 becomes 1; one of 0.5 stays as it is."),
    # 1 / 32768 = 0.0000305
    ("clip_at", {"clip": "value", "clip_at": "scaled", "loss_scaling": "static"},
     "The clip sees 32,768 times the gradient: the limit of 1 acts as one of 3.1e-05."),
    # 2 hidden layers of 64: 0.1 x 128, and 1 / 0.9
    ("dropout", {"dropout": 0.1},
     "About 0.1 x 128 = 12.8 hidden units are zero in every example, and the others are multiplied by 1.11."),
    ("dropout_keys", {"dropout": 0.1, "dropout_keys": "shared", "batch_size": 250},
     "An update of 250 examples shares 32 masks, the same in every microbatch."),
    ("hidden", {"hidden": "16,48"},
     "2 hidden layers of 16 to 48: every example passes 64 hidden units, with relu."),
    ("loss_scaling", {"loss_scaling": "static", "loss_scale": 1024},
     "The loss is multiplied by 1,024 before the backward pass, the gradient divided by it after."),
    # 2^-25 / 2^10 = 2.9e-11 and 65504 / 1024 = 63.97
    ("loss_scale", {"loss_scaling": "static", "loss_scale": 1024, "compute_dtype": "float16"},
     "The loss is multiplied by 1,024 before the backward pass: gradients between 2.9e-11 and 64 fit into "
     "float16."),
    # 300 / 50 = 6 times, from 2^15 to 2^21
    ("growth_interval", {"loss_scaling": "dynamic"},
     "50 good updates in a row double the scale: at most 6 times in a run of 300 that overflows nowhere."),
    # from 2^15 to 2^24, where it stays
    ("growth_interval", {"loss_scaling": "dynamic", "growth_interval": 10},
     "10 good updates in a row double the scale: at most 9 times in a run of 300 that overflows nowhere."),
    # 76800 / 1442 = 53.26
    ("steps", {}, "300 updates x 256 examples = 76,800 examples, 53.3 epochs."),
    ("steps", {"task": "scalar"}, "20 updates x 4 examples = 80 examples, 20 epochs."),
    ("seed", {}, "Seed 0 draws the first parameters and the order of 54 epochs."),
    ("seed", {"batch_size": 1442}, "Seed 0 draws the first parameters; the order of the examples is not drawn."),
    # 2 + 8 + 18 + 32 = 60 and 1 + 4 + 9 + 16 = 30
    ("xs", {"task": "scalar"}, "At the first w = 1 the gradients 2x(wx − y) of 4 examples add up to 60."),
    ("ys", {"task": "scalar"}, "At the first w = 1 the losses (wx − y)² of 4 examples add up to 30."),
    # w = 2: 2 x 1 (2 - 1) + 2 x 3 (6 - 4) = 14
    ("xs", {"task": "scalar", "xs": "1,3", "ys": "1,4", "w": "2"},
     "At the first w = 2 the gradients 2x(wx − y) of 2 examples add up to 14."),
    # mean (3, 4), of norm 5
    ("gradients", {"task": "hand", "gradients": "6:0/0:8"},
     "2 gradients of 2 coordinates in 2 microbatches of 1; their mean has norm 5."),
    ("w", {"task": "hand", "gradients": "6:0/0:8"}, "2 coordinates of w start at 1."),
    ("noise", {"task": "linear", "noise": 0.3},
     "Targets have noise of standard deviation 0.3: the true weights would still lose 0.09."),
    # 250 rows, of which one has no price: 249 - 49
    ("table", {"task": "table"}, "199 of its 250 rows train, and every fifth with a target is held out."),
    ("target", {"task": "table"}, "Column 6 of 6 is predicted from the other 5."),
    ("task", {"task": "hand", "gradients": "1"}, "Each of 10 updates sees the whole batch of 1 example."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "keys", "sentence"), BY_HAND)
def test_now_is_what_a_pencil_gives(name, keys, sentence):
    assert now(name, **keys) == sentence


@pytest.mark.parametrize("counts", ["updates", "microbatches"])
@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "constant"])
def test_rates_that_are_quoted_are_those_of_optax(schedule, counts):
    keys = {"schedule": schedule, "final_fraction": 0.25, "decay_rate": 0.5, "learning_rate": 0.8, "steps": 401}
    settings = Settings(**keys, decay_steps=80, warmup_steps=12, microbatches=4, schedule_counts=counts)
    found = rates(settings, 0, 401)
    sentence = explain("learning_rate", settings).now
    start, end, after = re.fullmatch(
        r"The rate starts at ([\d.e-]+).* (?:ends at|falls to) ([\d.e-]+) after ([\d.]+) updates.*\.", sentence
    ).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert found[0] == pytest.approx(float(start))
    last = float(after)
    if schedule == "restarts":  # the count at which a cycle ends is the first of the next
        assert found[int(last)] == pytest.approx(0.8)
        assert found[int(last) - 1] == pytest.approx(float(end), rel=0.1)
    else:
        assert found[int(last)] == pytest.approx(float(end), rel=1e-5)
        assert found[int(last) - 1] > found[int(last)]
    if peak := re.search(r"peaks at ([\d.]+) after ([\d.]+) updates", sentence):
        assert found.max() == pytest.approx(float(peak[1]))
        assert int(found.argmax()) == float(peak[2])
    else:
        assert found.max() == pytest.approx(float(start))


def test_parts_of_one_cycle_are_those_of_optax():
    settings = Settings(schedule="one_cycle", steps=200, learning_rate=0.5)
    found = rates(settings, 0, 200)
    sentence = explain("schedule", settings).now
    assert sentence == (
        "Lines take the rate from 0.02 to 0.5 in 60 updates, back in 110 updates, and to 2e-06 in 30 updates."
    )
    assert (found[0], found[60], found[170]) == pytest.approx((0.02, 0.5, 0.02))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_a_format_holds_is_what_it_holds(dtype):
    one = jnp.ones((), dtype)
    least = float(re.search(r"less than ([\de.-]+),", now("param_dtype", param_dtype=dtype))[1])  # pyright: ignore[reportOptionalSubscript]
    assert one + jnp.asarray(least * 0.9, dtype) == one
    assert one + jnp.asarray(least * 1.2, dtype) > one
    bits = round(-np.log2(float(jnp.finfo(dtype).eps))) + 1
    assert f"keep {bits} significant bits" in now("compute_dtype", compute_dtype=dtype)
    largest = float(jnp.finfo(dtype).max)
    said = now("compute_dtype", compute_dtype=dtype)
    assert (f"{largest:,.0f}" if largest < 1e6 else f"{largest:.1e}") in said
    if dtype == "float16":
        least = float(re.search(r"vanish below ([\de.-]+) ", said)[1])  # pyright: ignore[reportOptionalSubscript]
        assert jnp.asarray(least * 0.9, dtype) == 0
        assert jnp.asarray(least * 1.1, dtype) > 0


def test_text_of_the_users_is_never_in_it():
    evil = "**[b](http://e.x)** <img src=x> $x$"
    table = tables.add(f"a,{evil}\n{chr(10).join(f'{n},{n * n}' for n in range(40))}\n".encode(), f"{evil}.csv")
    settings = Settings(task="table", table=table, target=evil)
    for name in settings.used():
        assert not any(part in tooltip(name, settings) for part in ("b](", "<img", "$x", "e.x"))
    assert now("target", task="table", table=table, target="a") == "Column 1 of 2 is predicted from the other 1."


def test_tables_and_files_that_are_not_here_are_said_to_be_missing():
    for settings in (Settings(task="table", table="0123456789ab"), Settings(task="file", file="0123456789ab")):
        assert "nothing can train" in explain(settings.task, settings).now
        assert all(explain(name, settings).now for name in settings.used())


@pytest.mark.parametrize("text", ["a*b*_c_", "[x](http://y)", "<b>", "$a$ ~~b~~", "`c` \\ | #"])
def test_literal_text_stays_text(text):
    assert re.sub(r"\\(\W|_)", r"\1", literal(text)) == text
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`\[\]<>$~#|]", literal(text))


def test_tooltips_are_three_lines_of_safe_markdown():
    for settings in ALL:
        for name in settings.used():
            what, now_line, more = tooltip(name, settings).split("  \n")
            assert what.startswith(f"**{literal(name)}**: ") and now_line.startswith("**Now:** ")
            for line in (what.split(": ", 1)[1], now_line.removeprefix("**Now:** ")):
                assert not re.search(r"(?<!\\)[*_`\[\]<>$~#|]", line), line
            assert re.fullmatch(r"Read more: (\[[^\[\]]+\]\(https://[\w./#+-]+\)|README, “[^”]+”)", more), more


def test_the_source_follows_the_choice():
    assert explain("schedule", Settings()).more.link == "https://arxiv.org/abs/1608.03983"
    assert explain("weight_decay", Settings(optimizer="lion")).more.link == "https://arxiv.org/abs/2302.06675"
    assert explain("clip_threshold", Settings(clip="adaptive")).more.link == "https://arxiv.org/abs/2102.06171"


def test_sections_of_the_readme_are_there():
    listed = [[entry] if isinstance(entry, sources.Source) else entry.values() for entry in sources.SOURCES.values()]
    for source in itertools.chain.from_iterable(listed):
        if not source.link:
            section = re.fullmatch(r"README, “(.+)”", source.text)
            assert section and re.search(rf"^#+ {re.escape(section[1])}$", README, flags=re.M), source.text


def test_tooltips_of_a_whole_page_take_less_than_two_milliseconds():
    settings = Settings(**ON, dropout=0.1)
    best = min(timeit.repeat(lambda: [tooltip(name, settings) for name in settings.used()], number=1, repeat=30))
    assert best < 0.002
