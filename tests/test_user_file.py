"""A task of one's own: trained as the others are, and refused by name, shape and line before anything is compiled."""

import json
import shutil
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest

from lab import Settings, SettingsError, fit, read_task
from lab.cli import main
from lab.user_file import examples, loaded

EXAMPLE = Path(__file__).parents[1] / "assets" / "my_task.py"

PLAIN = """
import jax, jax.numpy as jnp, numpy as np

def data():
    draw = np.random.default_rng(0)
    x = draw.standard_normal((60, 3))
    return {"x": x, "y": x @ [1.0, -2.0, 0.5]}

def init(key):
    return {"w": jnp.zeros(3), "b": jnp.zeros(())}

def loss(params, batch, key):
    error = batch["x"] @ params["w"] + params["b"] - batch["y"]
    return error**2, jnp.ones(len(error))
"""


@pytest.fixture(autouse=True)
def jax_as_users_have_it():
    """A user's file need not keep to the strict promotion of these tests."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def written(folder: Path, text: str, name: str = "own.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def own(path: Path, **keys) -> Settings:
    return Settings(task="file", file=read_task(path), **keys)


def refusal(path: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        read_task(path)
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    return text


def test_the_example_that_ships_learns_its_parabola():
    run = fit(own(EXAMPLE))
    assert run.held_out["loss"][-1] < 0.05 < run.held_out["loss"][0]
    assert 20 <= len(EXAMPLE.read_text().splitlines()) <= 35


def test_least_squares_by_hand(tmp_path):
    run = fit(own(written(tmp_path, PLAIN), optimizer="sgd", schedule="constant", learning_rate=0.1, steps=1))
    draw = np.random.default_rng(0)
    x = draw.standard_normal((60, 3))
    y = x @ [1.0, -2.0, 0.5]
    update = run.at(0)
    assert sum(m.examples for m in update.microbatches) == 32
    rows = np.random.Generator(np.random.Philox(key=[0, 0])).permutation(60)[:32]
    np.testing.assert_allclose(run.params["w"], 0.2 * x[rows].T @ y[rows] / 32, rtol=1e-5)
    np.testing.assert_allclose(run.record["loss"][0], (y[rows] ** 2).mean(), rtol=1e-5)


@pytest.mark.parametrize(("devices", "microbatches"), [(1, 1), (1, 7), (2, 3), (4, 1)])
def test_totals_and_losses_by_example_train_alike_however_the_batch_is_cut(tmp_path, devices, microbatches):
    totals = PLAIN.replace("return error**2, jnp.ones(len(error))", "return (error**2).sum(), jnp.float32(len(error))")
    keys = dict(devices=devices, microbatches=microbatches, steps=9)
    runs = [fit(own(written(tmp_path, text), **keys)) for text in (PLAIN, totals)]
    for run in runs:
        assert run.at(5).agreement.relative_error < 2e-6
    np.testing.assert_array_equal(runs[0].record["loss"], runs[1].record["loss"])


def test_weights_count(tmp_path):
    weighted = PLAIN.replace("jnp.ones(len(error))", "jnp.arange(1.0, 1 + len(error)) * 3")
    update = fit(own(written(tmp_path, weighted), steps=1)).at(0)
    assert [m.weight for m in update.microbatches] == [24] * 4


def test_what_is_drawn_does_not_depend_on_the_cut(tmp_path):
    noisy = PLAIN.replace("error = batch", "error = 0.1 * jax.random.normal(key, (len(batch['x']),)) + batch")
    keys = dict(steps=12, batch_size=48)
    losses = [
        fit(own(written(tmp_path, noisy), devices=d, microbatches=m, **keys)).record["loss"]
        for d, m in ((1, 1), (1, 8), (4, 2))
    ]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(losses[2], losses[0], rtol=1e-5)
    path = written(tmp_path, noisy)
    shared = fit(own(path, dropout_keys="shared", **keys)).at(0)
    assert shared.agreement.relative_error > 1e-3
    assert fit(own(path, learning_rate=0, batch_size=60, steps=9)).record["loss"].std() > 0


EQUINOX = """
import equinox as eqx, jax, jax.numpy as jnp, numpy as np

def data():
    x = np.random.default_rng(0).standard_normal((100, 3))
    return {"x": x, "y": x.sum(axis=1)}

def init(key):
    return eqx.nn.MLP(3, "scalar", 8, 1, key=key)

def loss(model, batch, key):
    return (jax.vmap(model)(batch["x"]) - batch["y"]) ** 2, jnp.ones(len(batch["y"]))
"""
FLAX = """
from flax import nnx
import jax, jax.numpy as jnp, numpy as np

class Net(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(3, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.first(x)))[:, 0]

def data():
    x = np.random.default_rng(0).standard_normal((100, 3))
    return {"x": x, "y": x.sum(axis=1)}

def init(key):
    return Net(nnx.Rngs(key))

def loss(model, batch, key):
    return (model(batch["x"]) - batch["y"]) ** 2, jnp.ones(len(batch["y"]))
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", [EQUINOX, FLAX], ids=["equinox", "flax"])
def test_modules_of_libraries_work_as_they_come(tmp_path, text):
    run = fit(own(written(tmp_path, text), learning_rate=0.03, devices=2))
    assert run.record["loss"][-1] < 0.01 * run.record["loss"][0]
    update = run.at(20)
    assert update.agreement.relative_error < 2e-6
    assert len(run.params) == 4 and all(leaf.dtype == np.float32 for leaf in run.params.values())


RETURNED = "return error**2, jnp.ones(len(error))"
DATA = 'return {"x": x, "y": x @ [1.0, -2.0, 0.5]}'
WRONG = [
    ("def init(key)", "def init(key:", ["own.py: is not Python in line 9"]),
    ("def loss", "def lost", ["no function loss(params, batch, key); define it"]),
    ("init(key)", "init()", ["init cannot be called as init(key)"]),
    ("    draw =", "    draw = 1 / 0\n    draw =", ["data() raised ZeroDivisionError in line 5"]),
    ("import jax,", "raise SystemExit(3)\nimport jax,", ["running it raised SystemExit in line 2"]),
    ("import jax,", "import not_there, jax,", ["ModuleNotFoundError in line 2", "not_there"]),
    (DATA, "return [x]", ["data() returned list"]),
    (DATA, "return 1, 2, 3", ["3 parts"]),
    (DATA, 'return {"x": x}, {"z": x}', ["held-out examples unlike"]),
    (DATA, 'return {"x": 3.0}', ["data()['x'] is a single number"]),
    (DATA, 'return {"x": x[:50], "y": x}', ["50 (x), 60 (y)", "the same first axis"]),
    (DATA, 'return {"x": np.array(["a"] * 60)}', ["data()['x'] has dtype <U1"]),
    ("(60, 3)", "(0, 3)", ["no example"]),
    ('{"w": jnp.zeros(3), "b": jnp.zeros(())}', "{'w': 3}", ["init(key) returned dict"]),
    (RETURNED, "return error**2", ["return two arrays, the loss and the weight"]),
    (RETURNED, "return error**2, None", ["return two arrays"]),
    ("error**2,", "error[:, None] * batch['x'],", ["a loss of shape (1, 3)", "expected (1,)"]),
    ("jnp.ones(len(error))", "jnp.ones(7)", ["a weight of shape (7,)"]),
    ("error**2,", "jnp.ones(len(error), int),", ["a loss of dtype int32"]),
    ("jnp.zeros(3)", "jnp.zeros(3) * 1j", ["complex numbers at w"]),
    ('"b": jnp.zeros(())', '"b": jnp.zeros((0, 2))', ["an array without entries at b"]),
    ('"b": jnp.zeros(())}', "3: jnp.zeros(())}", ["init(key) as a tree of arrays raised ValueError"]),
    (DATA, 'return {"x": x * 1e300}', ["data()['x'] holds", "beyond the range of float32"]),
    (DATA, 'return {"x": np.arange(60) + 2**40}', ["data()['x'] holds 1.09951e+12, beyond the range of int32"]),
    ("def data", "jax.config.update('jax_enable_x64', True)\ndef data", ["sets jax_enable_x64"]),
    ('batch["y"]', 'batch["z"]', ["loss(params, batch, key) raised KeyError in line 13", "z"]),
    ("jnp.zeros(3)", "jnp.zeros(4)", ["loss(params, batch, key) raised TypeError in line 13"]),
]


@pytest.mark.parametrize(("old", "new", "pieces"), WRONG)
def test_what_cannot_be_a_task_is_refused_in_one_sentence(tmp_path, old, new, pieces):
    assert old in PLAIN
    said = refusal(written(tmp_path, PLAIN.replace(old, new)))
    assert said.startswith("own.py: ")
    for piece in pieces:
        assert piece in said


def test_what_cannot_be_read_is_refused(tmp_path):
    assert "no_such.py: cannot be read (No such file" in refusal(tmp_path / "no_such.py")
    assert "cannot be read (Is a directory)" in refusal(tmp_path)


def test_a_file_that_was_not_loaded_is_refused_where_it_would_run():
    with pytest.raises(SettingsError, match=r"training-lab --task my_task\.py"):
        fit(Settings(task="file"))
    link = Settings.from_query({"task": "file", "file": "0123456789ab"})
    assert Settings.from_query(link.query()) == link
    with pytest.raises(SettingsError, match="file=0123456789ab: no such task was loaded here"):
        fit(link)
    with pytest.raises(SettingsError, match="must be the fingerprint of a loaded file"):
        Settings(task="file", file="/etc/passwd")


def test_a_batch_is_at_most_every_example_there_is(tmp_path):
    fingerprint = read_task(written(tmp_path, PLAIN.replace("(60, 3)", "(20, 3)")))
    assert examples(fingerprint) == 20 and loaded(fingerprint) is not None
    assert Settings(task="file", file=fingerprint).batch_size == 20
    with pytest.raises(SettingsError, match=r"batch_size=21: must be 1 to 20, the examples of own.py"):
        Settings(task="file", file=fingerprint, batch_size=21)


def test_a_neighbouring_module_may_be_imported(tmp_path):
    written(tmp_path, "SCALE = 2.0", "neighbour_of_own.py")
    read_task(written(tmp_path, "from neighbour_of_own import SCALE\n" + PLAIN))


def test_the_command_line_loads_the_file(tmp_path, capsys):
    path = tmp_path / "my_task.py"
    shutil.copy(EXAMPLE, path)
    assert main(["run", "--task", str(path), "steps=20", "--json", str(tmp_path / "run.json")]) == 0
    assert "file · 32 examples" in capsys.readouterr().err
    assert main(["inspect", "--task", str(path), "--step", "3", "steps=20", "microbatches=5"]) == 0
    assert "agrees with the full batch" in capsys.readouterr().err
    assert main(["run", "--task", str(tmp_path / "none.py")]) == 2
    assert "none.py: cannot be read" in capsys.readouterr().err
    several = ["--coordinator", "127.0.0.1:8600", "--processes", "2", "--process", "0"]
    assert main(["run", "--task", str(path), "devices=2", *several]) == 2
    assert "my_task.py: a task of your own trains in one process" in capsys.readouterr().err
    assert main(["run", "--task", str(path), "task=digits"]) == 2
    assert "and task=digits: choose the task once" in capsys.readouterr().err
    assert main(["run", "--task", ""]) == 2
    assert "--task: names no file" in capsys.readouterr().err


def test_what_a_file_prints_does_not_touch_the_results(tmp_path, capfd):
    loud = "import os\nprint('top')\nos.system('echo shell')\n" + PLAIN.replace(
        "    error =", "    print('tracing'); jax.debug.print('value {}', params['b'])\n    error ="
    )
    path = written(tmp_path, loud)
    assert main(["run", "--task", str(path), "steps=2", "--json", "-"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["settings"]["task"] == "file"
    assert all(word in err for word in ("top", "shell", "tracing", "value "))


DRAWS = {
    "bernoulli": "jax.random.bernoulli(key, 0.5, (1,))",
    "normal": "jax.random.normal(key, (1,))",
    "randint": "jax.random.randint(key, (1,), 0, 9)",
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_draw_in_the_default_dtype_is_the_same_in_the_reference(tmp_path, draw):
    text = PLAIN.replace("error = batch", f"error = {draw} * batch")
    assert fit(own(written(tmp_path, text), steps=1, microbatches=5)).at(0).agreement.relative_error < 2e-6


def test_names_that_would_read_alike_are_kept_apart(tmp_path):
    tree = "{'w': jnp.zeros(3), 'b': jnp.ones(()), 'a.b': jnp.ones(2), 'a': {'b': jnp.ones(1), 'n': 3}}"
    run = fit(own(written(tmp_path, PLAIN.replace('{"w": jnp.zeros(3), "b": jnp.zeros(())}', tree)), steps=1))
    assert sorted(leaf.shape for leaf in run.params.values()) == [(), (1,), (2,), (3,)]


def test_a_file_is_loaded_once_and_may_hold_dataclasses(tmp_path):
    text = """
from __future__ import annotations
import dataclasses

@dataclasses.dataclass
class Pair:
    w: float

print("loaded")
"""
    path = written(tmp_path, text + PLAIN)
    assert read_task(path) == read_task(path)


def test_a_format_the_loss_cannot_take_is_refused_before_it_is_compiled(tmp_path):
    strict = PLAIN.replace("    error =", "    assert params['w'].dtype == jnp.float32\n    error =")
    path = written(tmp_path, strict)
    fit(own(path, steps=1))
    with pytest.raises(SettingsError, match=r"raised AssertionError in line 13 \(compute_dtype=float16"):
        fit(own(path, steps=1, compute_dtype="float16"))


def test_an_init_that_changes_its_mind_is_refused(tmp_path):
    fickle = PLAIN.replace("def init(key):", "calls = []\n\ndef init(key):\n    calls.append(key)").replace(
        "jnp.zeros(3)", "jnp.zeros(3 + len(calls) // 3)"
    )
    path = written(tmp_path, fickle)
    with pytest.raises(SettingsError, match="another tree or other shapes"):
        fit(own(path, steps=1))
