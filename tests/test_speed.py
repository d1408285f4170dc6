"""Speed, by counts and never by the clock: what is compiled, how large the program is, what a long run keeps."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from lab import Settings
from lab.plan import Plan
from lab.program import TRACES
from lab.run import Training

ROOT = Path(__file__).parents[1]


def operations(settings: Settings) -> Counter[str]:
    """The operations of the lowered program."""
    plan = Plan(settings)
    data = plan.data(0, plan.start)
    given = plan.start, plan.blank(), plan.share, data, jnp.int32(0), jnp.int32(1)
    return Counter(re.findall(r"stablehlo\.(\w+)", plan.program.train.lower(*given).as_text()))


@pytest.mark.parametrize(
    ("settings", "most", "dots", "reductions"),
    [
        (Settings(), 910, 14, 28),
        (Settings(devices=4), 1200, 14, 41),
        (Settings(task="linear"), 440, 3, 11),
        (Settings(task="names"), 1460, 31, 60),
    ],
    ids=["digits", "four devices", "linear", "names"],
)
def test_the_program_stays_as_small_as_it_is(settings, most, dots, reductions):
    found = operations(settings)
    assert sum(found.values()) <= most
    assert found["while"] == 3, "blocks, updates, microbatches"
    assert found["dot_general"] <= dots and found["reduce"] <= reductions


def test_a_small_model_takes_no_branch_within_an_update_and_a_large_one_two():
    """A branch inside the loop over updates costs more than all sums of a small model; one more begins every block."""
    assert operations(Settings(task="points", hidden="4,2"))["case"] == 1
    assert operations(Settings(hidden="64,64"))["case"] == 3


def test_devices_meet_twice_an_update():
    """For the gradient with all that is summed, and to see whether they agree; once more for held-out examples."""
    plan = Plan(Settings(task="points", devices=4))
    data = plan.data(0, plan.start)
    given = plan.start, plan.blank(), plan.share, data, jnp.int32(0), jnp.int32(1)
    assert len(re.findall(r" all-reduce\(", plan.program.train.lower(*given).compile().as_text())) == 3


def test_a_layer_more_is_a_larger_program():
    one, two = (operations(Settings(hidden=hidden)) for hidden in ("64", "64,64"))
    assert sum(one.values()) < sum(two.values()) and one["dot_general"] == 9 and two["dot_general"] == 14


def test_the_number_of_microbatches_and_the_length_of_the_run_do_not_change_the_program():
    few = operations(Settings(microbatches=2, steps=16))
    assert few == operations(Settings(microbatches=64, steps=16)) == operations(Settings(microbatches=2, steps=20_000))


COMPILED = Counter()
jax.monitoring.register_event_duration_secs_listener(lambda event, duration_secs, **facts: COMPILED.update([event]))


def compiles(settings: Settings) -> int:
    """How many programs a run compiles."""
    before = COMPILED["/jax/core/compile/backend_compile_duration"]
    training = Training(Plan(settings))
    while not training.done:
        training.advance(settings.steps)
    training.run()
    return COMPILED["/jax/core/compile/backend_compile_duration"] - before


def test_a_first_run_compiles_two_programs_and_a_few_small_ones_however_many_tensors_and_devices_there_are():
    """The training and the last measurement; the rest is the random key, the weights it draws, and the schedule."""
    jax.clear_caches()
    assert compiles(Settings(task="points", hidden="6,6,6,6", devices=4, batch_size=40, steps=3)) <= 20


def test_a_run_of_the_same_structure_compiles_nothing_at_all():
    settings = Settings(task="points", batch_size=48, steps=40)
    assert compiles(settings) > 0
    traced = TRACES[Plan(settings).recipe]
    assert compiles(settings) == 0
    other = settings.replace(seed=5, learning_rate=0.3, shape="spiral", steps=100, schedule="one_cycle")
    assert compiles(other.replace(schedule=settings.schedule)) == 0
    assert TRACES[Plan(other).recipe] == traced == 1


LONG = """
import resource
import lab

settings = lab.Settings(task="linear", steps=20)
lab.fit(settings)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run = lab.fit(settings.replace(steps=200_000))
assert run.record.length == 200_000 and len(run.kept) <= 32
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_run_of_200_000_updates_stays_under_300_mb():
    done = subprocess.run([sys.executable, "-c", LONG], cwd=ROOT, capture_output=True, text=True, check=True)
    kilobytes = int(done.stdout) / (1024 if sys.platform == "darwin" else 1)
    assert kilobytes < 300_000
