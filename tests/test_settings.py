"""Settings: defaults by task, round trips through every way of writing them down, structure against numbers."""

import json
import math
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lab import Settings, SettingsError, files, tables, tasks
from lab.choices import (
    CLIPS,
    DEALS,
    DROPOUT_KEYS,
    NORMS,
    OPTIMIZERS,
    ORDERS,
    REDUCTIONS,
    SAMPLED,
    SCHEDULES,
    SHAPES,
    TASKS,
    WARMED_UP,
)  # fmt: skip
from lab.settings import KEYS, about_key

DEFAULTS = {
    "digits": {
        "batch_size": 256,
        "microbatches": 8,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "schedule": "cosine",
        "steps": 300,
    },
    "names": {
        "batch_size": 64,
        "microbatches": 8,
        "optimizer": "adam",
        "learning_rate": 0.02,
        "schedule": "cosine",
        "steps": 300,
    },
    "points": {
        "batch_size": 64,
        "microbatches": 4,
        "hidden": "16,16",
        "optimizer": "adam",
        "learning_rate": 0.01,
        "schedule": "cosine",
        "steps": 300,
    },
    "file": {
        "batch_size": 32,
        "microbatches": 4,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "schedule": "cosine",
        "steps": 300,
    },
    "table": {
        "batch_size": 32,
        "microbatches": 4,
        "hidden": "16,16",
        "table": "example",
        "target": "",
        "optimizer": "adam",
        "learning_rate": 0.01,
        "schedule": "cosine",
        "steps": 300,
    },
    "linear": {
        "batch_size": 100,
        "microbatches": 4,
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "schedule": "constant",
        "steps": 200,
    },
    "scalar": {
        "batch_size": 4,
        "microbatches": 2,
        "optimizer": "sgd",
        "learning_rate": 0.01,
        "schedule": "constant",
        "steps": 20,
    },
    "hand": {
        "batch_size": 4,
        "microbatches": 2,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "schedule": "constant",
        "steps": 10,
    },
}
EVERYWHERE = {
    "reduction": "mean", "clip": "none", "clip_at": "update", "clip_threshold": 1.0, "seed": 0,
    "schedule_counts": "updates",
    "decay_steps": 0, "decay_rate": 0.5, "final_fraction": 0.0, "weight_decay": 0.01,
}  # fmt: skip

normal = st.floats(-3.4e38, 3.4e38).filter(lambda x: x == 0 or abs(x) > 1.2e-38)
numbers = st.one_of(normal, st.sampled_from([math.nan, math.inf, -math.inf])).map(str)


@st.composite
def legal(draw) -> Settings:
    task = draw(st.sampled_from(TASKS))
    keys: dict = {"task": task}
    if task == "scalar":
        xs = draw(st.lists(numbers, min_size=1, max_size=5))
        keys |= {"xs": ",".join(xs), "ys": ",".join(draw(st.sampled_from([["0"], xs]))), "w": draw(numbers)}
    elif task == "hand":
        size = draw(st.integers(1, 3))
        example = st.lists(numbers, min_size=size, max_size=size).map(":".join)
        group = st.lists(example, min_size=1, max_size=3).map(",".join)
        keys |= {"gradients": "/".join(draw(st.lists(group, min_size=1, max_size=4))), "w": draw(numbers)}
    else:
        most = tables.training_rows("example", "") if task == "table" else about_key("batch_size").high_for(task)
        keys["batch_size"] = draw(st.integers(1, int(most or 0)))
    if task != "hand":
        keys["microbatches"] = draw(st.integers(1, 1024))
    optional = {
        "noise": st.floats(0, 100),
        "hidden": st.lists(st.integers(1, 1024), max_size=4), "shape": st.sampled_from(SHAPES),
        "norm": st.sampled_from(NORMS), "dropout": st.floats(0, 0.95), "order": st.sampled_from(ORDERS),
        "dropout_keys": st.sampled_from(DROPOUT_KEYS), "deal": st.sampled_from(DEALS),
        "reduction": st.sampled_from(REDUCTIONS), "optimizer": st.sampled_from(OPTIMIZERS),
        "learning_rate": st.floats(0, 1000), "weight_decay": st.floats(0, 10), "schedule": st.sampled_from(SCHEDULES),
        "decay_steps": st.integers(0, 200_000), "decay_rate": st.floats(0, 1, exclude_min=True),
        "final_fraction": st.floats(0, 1), "schedule_counts": st.sampled_from(["updates", "microbatches"]),
        "accumulator_dtype": st.sampled_from(["float32", "float16", "bfloat16"]),
        "clip": st.sampled_from(CLIPS), "clip_threshold": st.floats(0, 1e30, exclude_min=True),
        "clip_at": st.sampled_from(["update", "microbatch"]), "steps": st.integers(1, 200_000),
        "seed": st.integers(0, 2**31 - 1),
    }  # fmt: skip
    keys |= draw(st.fixed_dictionaries({}, optional=optional))
    if keys.get("schedule") in (*WARMED_UP, "one_cycle", "piecewise"):
        keys |= {"steps": draw(st.integers(4, 200_000)), "decay_steps": draw(st.sampled_from([0, 5, 10**5]))}
        shortest = min(keys["steps"], keys["decay_steps"] or keys["steps"])
        keys["warmup_steps"] = draw(st.integers(1, shortest - 1))
    return Settings(**keys)


@pytest.mark.parametrize("task", TASKS)
def test_defaults_by_task(task):
    settings = Settings(task=task).to_dict()
    assert settings == settings | DEFAULTS[task] | EVERYWHERE | {"task": task}
    assert Settings(task=task).changed() == ({} if task == "digits" else {"task": task})


def test_the_default_task_is_digits():
    assert Settings() == Settings(task="digits", hidden="64,64") and Settings().hidden == "64,64"


def test_hand_counts_its_groups_and_examples():
    settings = Settings(task="hand", gradients="1/2,3/4,5,6")
    assert (settings.microbatches, settings.batch_size) == (3, 6)


@pytest.mark.parametrize("task", [task for task in SAMPLED if task not in ("table", "file")])
def test_the_largest_batch_is_every_example_there_is(task):
    assert tasks.load(Settings(task=task)).examples == about_key("batch_size").high_for(task)
    examples = {"digits": 1442, "linear": 1000, "points": 400, "names": 1915}
    assert tasks.load(Settings(task=task)).examples == examples[task]


@given(legal())
def test_settings_survive_a_dict(settings):
    assert Settings.from_dict(settings.to_dict()) == settings
    assert Settings.from_dict(settings.changed()) == settings


@given(legal())
def test_settings_survive_words(settings):
    assert Settings.from_words(settings.words()) == settings


@given(legal())
def test_settings_survive_the_address(settings):
    assert Settings.from_query(settings.query()) == settings
    assert Settings.from_query(dict(parse_qsl(settings.address(), keep_blank_values=True))) == settings


@given(settings=legal())
@hypothesis_settings(max_examples=30)
def test_settings_survive_files(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    (folder / "a.toml").write_text(files.to_toml(settings))
    (folder / "a.json").write_text(json.dumps(settings.to_dict()))
    assert files.read(folder / "a.toml") == settings == files.read(folder / "a.json")


def test_more_groups_than_microbatches_may_be_are_refused_or_survive():
    try:
        settings = Settings(task="hand", gradients="/".join(["1"] * 1500))
    except SettingsError as refusal:
        assert "gradients" in str(refusal)
    else:
        assert Settings.from_dict(settings.to_dict()) == settings


def test_words_overrule_a_file(tmp_path):
    (tmp_path / "a.toml").write_text('task = "scalar"\nsteps = 5\nmicrobatches = 4\n')
    settings = files.read(tmp_path / "a.toml", ["steps=7"])
    assert (settings.task, settings.steps, settings.microbatches) == ("scalar", 7, 4)


def test_text_and_numbers_and_lists_are_the_same_settings():
    listed = Settings.from_dict({"task": "scalar", "xs": [1, 2.5], "steps": "7", "learning_rate": "0.1"})
    assert listed == Settings.from_dict({"task": "scalar", "xs": "1, 2.5", "steps": 7.0, "learning_rate": 0.1})
    assert Settings.from_dict({"hidden": [32, 16]}) == Settings(hidden="32,16")
    assert Settings.from_dict({"hidden": 32}).hidden == "32"
    assert Settings.from_dict({"steps": None}) == Settings()


def test_settings_are_hashable_and_cannot_be_changed():
    assert len({Settings(), Settings(steps=300), Settings(steps=301)}) == 2
    with pytest.raises(AttributeError):
        Settings().steps = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_replacing_the_task_takes_its_defaults_and_keeps_what_was_chosen():
    changed = Settings(learning_rate=0.5).replace(task="linear")
    assert changed == Settings(task="linear", learning_rate=0.5) and changed.batch_size == 100


def test_structure_is_what_shapes_the_program():
    assert set(Settings().structure()) == {
        "task", "table", "target", "file", "hidden", "norm", "dropout_keys", "layers", "width", "batch_size",
        "microbatches", "reduction", "accumulator_dtype", "optimizer", "clip", "clip_at", "param_dtype",
        "compute_dtype", "loss_scaling", "devices", "device_reduction", "parallel",
    }  # fmt: skip


def test_the_query_names_its_vocabulary_and_only_what_was_changed():
    assert Settings().query() == {"v": "1"}
    assert Settings(microbatches=4, clip="value").query() == {"v": "1", "microbatches": "4", "clip": "value"}
    assert Settings(task="hand", gradients="2:0/0:2").address() == "v=1&task=hand&gradients=2:0/0:2"


@pytest.mark.parametrize(
    ("keys", "unused"),
    [
        ({"warmup_steps": 5}, {"warmup_steps"}),
        ({"warmup_steps": 5, "schedule": "warmup_cosine"}, set()),
        ({"clip_threshold": 2, "clip_at": "microbatch"}, {"clip_threshold", "clip_at"}),
        ({"clip_threshold": 2, "clip": "value"}, set()),
        ({"weight_decay": 1}, {"weight_decay"}),
        ({"weight_decay": 1, "optimizer": "lion"}, set()),
        ({"task": "scalar", "seed": 4, "hidden": "8"}, {"seed", "hidden"}),
        ({"schedule": "constant", "schedule_counts": "microbatches"}, {"schedule_counts"}),
    ],
)
def test_changes_that_nothing_reads_are_told(keys, unused):
    assert set(Settings(**keys).unused_changes()) == unused
    assert set(Settings(**keys).used()).isdisjoint(unused)


@pytest.mark.parametrize(("schedule", "length"), [("linear", 40), ("staircase", 10), ("restarts", 10)])
def test_a_schedule_lasts_the_run_and_a_stair_a_quarter_of_it(schedule, length):
    assert Settings(schedule=schedule, steps=40).schedule_length == length
    assert Settings(schedule=schedule, steps=40, decay_steps=7).schedule_length == 7
    assert Settings(schedule=schedule, steps=1).schedule_length == 1


@pytest.mark.parametrize("name", KEYS)
def test_every_key_says_what_it_is(name):
    about = about_key(name)
    assert about.help.endswith(".") and about.group
    assert not about.choices or about.default in about.choices
    assert math.isinf(about.low) or about.form or about.legal("digits").startswith(f"{about.low:g} to ")


@given(st.sampled_from(list(KEYS)), st.text(max_size=30))
@hypothesis_settings(max_examples=500)
def test_any_text_is_either_legal_or_refused(name, text):
    try:
        settings = Settings.from_query({name: text})
    except SettingsError as refusal:
        assert name in str(refusal)
    else:
        assert Settings.from_query(settings.query()) == settings


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=3))
def test_any_query_is_either_legal_or_refused(query):
    try:
        Settings.from_query(query)
    except SettingsError:
        assert query


def test_powers_may_be_written_as_powers():
    assert Settings.from_words(["loss_scaling=static", "loss_scale=2^10"]).loss_scale == 1024
    assert Settings.from_words(["loss_scaling=static", "loss_scale=2^-24"]).loss_scale == 2.0**-24
