"""Compiled programs are kept in the user's cache folder: a second process compiles nothing, and nothing needs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import cache

ROOT = Path(__file__).parents[1]
COUNT = """
import json, shutil, sys
from lab import cache
cache.remember()
from collections import Counter
from jax import monitoring
events = Counter()
monitoring.register_event_listener(lambda event, **facts: events.update([event.rsplit("/", 1)[-1]]))
import lab
settings = lab.Settings.from_words(sys.argv[2:])
run = lab.fit(settings)
if sys.argv[1] == "deleted":
    shutil.rmtree(cache.folder().parent)
    lab.fit(settings.replace(batch_size=31))
last = float(run.record["loss"][-1])
print(json.dumps({"hits": events["cache_hits"], "misses": events["cache_misses"], "last": last}))
"""


def started(folder: Path, how: str, *words: str) -> dict[str, float]:
    """Train in a process of its own, as the command line does; it must say nothing on standard error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XDG_"))}
    kept |= {"JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(folder), "LOCALAPPDATA": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, how, *words], cwd=ROOT, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [["task=linear"], ["task=points", "devices=4"]], ids=" ".join)
def test_a_second_process_compiles_nothing_and_numbers_compile_nothing(words, tmp_path):
    first = started(tmp_path, "", *words)
    assert first["misses"] > 0
    again = started(tmp_path, "", *words)
    assert again == {**first, "hits": first["hits"] + first["misses"], "misses": 0}
    other = started(tmp_path, "", *words, "learning_rate=0.02", "seed=3", "noise=0.2", "steps=150")
    assert other["misses"] == 0 and other["last"] != first["last"]


def test_a_folder_that_is_deleted_meanwhile_does_no_harm(tmp_path):
    told = started(tmp_path, "deleted", "task=linear", "steps=20")
    assert told["misses"] > 0 and not (tmp_path / "training-lab").exists()


def test_a_folder_that_cannot_be_is_not_used(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert started(tmp_path / "file", "", "task=scalar") == {
        **started(tmp_path, "", "task=scalar"),
        "hits": 0,
        "misses": 0,
    }


def test_half_a_file_is_compiled_again(tmp_path):
    first = started(tmp_path, "", "task=scalar")
    for file in (tmp_path / "training-lab" / "compiled").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    again = started(tmp_path, "", "task=scalar")
    assert again["hits"] == 0 and again["last"] == first["last"]


def test_a_folder_the_user_chose_stands(monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "jax")
    cache.remember()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine" and not list(tmp_path.iterdir())


def test_the_bench_compiles_anew_whatever_is_kept(tmp_path):
    kept = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    bench = "import sys; from lab.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["bench", "--work", "linear", "--microbatches", "1", "--loops", "bare", "--repeats", "1"]
    done = subprocess.run([sys.executable, "-c", bench, *words], cwd=ROOT, env=kept, capture_output=True, check=False)
    assert done.returncode == 0 and b"bare" in done.stdout and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("platform", "variable", "want"),
    [("linux", "XDG_CACHE_HOME", "given"), ("win32", "LOCALAPPDATA", "given"), ("darwin", "XDG_CACHE_HOME", "home")],
)
def test_the_folder_is_the_platforms_own(platform, variable, want, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv(variable, str(tmp_path / "given"))
    inside = Path("Library", "Caches") if want == "home" else Path()
    assert cache.folder() == tmp_path / want / inside / "training-lab" / "compiled"


def test_the_folder_is_trimmed_from_the_longest_unused_on(monkeypatch, tmp_path):
    for age in range(10):
        file = tmp_path / f"{age}-cache"
        file.write_bytes(bytes(100))
        os.utime(file, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(cache, "_trimmed", tmp_path)
    monkeypatch.setattr(cache, "MOST_BYTES", 1000)
    cache.trim()
    assert len(list(tmp_path.iterdir())) == 10
    (tmp_path / "new-cache").write_bytes(bytes(100))
    cache.trim()
    assert {file.name for file in tmp_path.iterdir()} == {"new-cache", *(f"{age}-cache" for age in range(6))}


def test_nothing_is_trimmed_that_was_not_chosen_here(monkeypatch, tmp_path):
    (tmp_path / "theirs").write_bytes(bytes(100))
    monkeypatch.setattr(cache, "MOST_BYTES", 10)
    cache.trim()
    assert (tmp_path / "theirs").exists()
