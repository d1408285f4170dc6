"""Several devices: the same run whichever way JAX runs them, and the mistakes people make (traps, family E)."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from lab import Settings, SettingsError, fit
from lab.choices import DEVICE_REDUCTIONS, PARALLEL, REDUCTIONS
from lab.devices import check, described
from lab.diagnosis import diagnose
from lab.findings import of_run, of_update
from lab.headline import headline
from lab.plan import Plan
from lab.program import TRACES

ROOT = Path(__file__).parents[1]


def hand(gradients: str, **keys):
    return fit(Settings(task="hand", gradients=gradients, **{"devices": 2, "steps": 1, "learning_rate": 1, **keys}))


def reduced(run) -> float:
    return float(run.at(0).stages["reduce_devices"].values[0])


def flat(params) -> np.ndarray:
    return np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(params)])


@pytest.mark.parametrize("batch_size", [256, 250])
def test_any_number_of_devices_gives_the_same_parameters(batch_size):
    keys = {"batch_size": batch_size, "steps": 100, "optimizer": "sgd", "learning_rate": 0.1}
    one = fit(Settings(**keys))
    for devices in (2, 4, 8):
        several = fit(Settings(devices=devices, **keys))
        difference = flat(several.params) - flat(one.params)
        assert np.linalg.norm(difference) <= 2e-6 * np.linalg.norm(flat(one.params))
        np.testing.assert_allclose(several.record["loss"], one.record["loss"], rtol=2e-5)
        np.testing.assert_allclose(several.held_out["loss"], one.held_out["loss"], rtol=2e-5)
        np.testing.assert_array_equal(several.held_out["accuracy"], one.held_out["accuracy"])
        assert several.record["spread"].tolist() == [0] * 100


@pytest.mark.parametrize(
    ("way", "after"), [("global", [0.8, 0.8]), ("mean", [0.8, 0.8]), ("sum", [0.6, 0.6]), ("none", [0.9, 0.7])]
)
@pytest.mark.parametrize("parallel", PARALLEL)
def test_gradients_1_and_3_on_two_devices(way, after, parallel):
    run = hand("1/3", learning_rate=0.1, device_reduction=way, parallel=parallel)
    assert [float(device.params_after.values[0]) for device in run.at(0).devices] == pytest.approx(after)
    assert run.final["spread"] == pytest.approx(abs(after[1] - after[0]) / max(after))
    assert [float(run.state(1, device).params["w"][0]) for device in (0, 1)] == pytest.approx(after)


def test_devices_of_unequal_weight():
    right, wrong = hand("4/2,2,2"), hand("4/2,2,2", device_reduction="mean")
    assert reduced(right) == 2.5
    assert reduced(wrong) == 3
    update = right.at(0)
    assert {name: float(v.values[0]) for name, v in update.device_reductions.items()} == {
        "global": 2.5, "mean": 3, "sum": 6, "none": 4,
    }  # fmt: skip
    assert [(d.examples, d.weight, d.loss) for d in update.devices] == [(1, 1, 4), (3, 3, 2)]
    assert right.record["loss"].tolist() == wrong.record["loss"].tolist() == [2.5]
    assert right.record["device_loss"].tolist() == [[4, 2]]
    assert right.record["device_grad_norm"].tolist() == [[4, 2]]
    (finding,) = of_update(wrong.at(0))
    assert "20 % off" in finding.text
    assert "device 1 holds 1 of the 4 examples" in finding.text
    assert "weighs 3 times as much" in finding.text
    assert finding.cure == {"device_reduction": "global"}


def test_clipping_on_each_device_turns_the_gradient():
    keys = {"clip": "global_norm", "clip_threshold": 1}
    assert hand("3:4/-3:4", **keys).at(0).stages["clip"].values == pytest.approx([0, 1])
    at_device = hand("3:4/-3:4", clip_at="device", **keys)
    assert at_device.at(0).stages["reduce_devices"].values == pytest.approx([0, 0.8])
    assert at_device.record["clipped"].tolist() == [1]
    assert at_device.record["grad_norm"].tolist() == pytest.approx([4])
    assert at_device.record["clipped_grad_norm"].tolist() == pytest.approx([0.8])


def expected(reduction: str, way: str, groups: list[list[int]], devices: int) -> float:
    """The reduced gradient as the definitions say, in float64."""
    sums, weights = [sum(g) for g in groups], [len(g) for g in groups]
    each = len(groups) // devices

    def finish(s, w):
        total = sum(s) if not reduction.endswith("of_means") else sum(a / b for a, b in zip(s, w, strict=True))
        return total / {"mean": sum(w), "mean_of_means": len(w)}.get(reduction, 1)

    if way == "global":
        return finish(sums, weights)
    own = [finish(sums[d * each : (d + 1) * each], weights[d * each : (d + 1) * each]) for d in range(devices)]
    return {"mean": sum(own) / devices, "sum": sum(own), "none": own[0]}[way]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("way", DEVICE_REDUCTIONS)
def test_every_pair_of_reductions_is_what_it_says(reduction, way):
    groups = [[4, 1], [2, 2, 2], [7], [1, 5], [3], [-2, 8, 1]]
    text = "/".join(",".join(map(str, group)) for group in groups)
    run = hand(text, reduction=reduction, device_reduction=way)
    assert reduced(run) == pytest.approx(expected(reduction, way, groups, 2), rel=1e-6)
    assert float(run.at(0).reductions[reduction].values[0]) == pytest.approx(
        expected(reduction, "global", groups, 2), rel=1e-6
    )


@pytest.mark.parametrize(
    ("reduction", "way"),
    [*zip(REDUCTIONS, ["global"] * 4, strict=True), ("mean", "mean"), ("sum_of_means", "sum"), ("mean", "none")],
)
def test_pmap_shard_map_and_one_sharded_program_agree(reduction, way):
    keys = {
        "task": "linear", "batch_size": 90, "devices": 4, "microbatches": 3, "steps": 12, "learning_rate": 1e-3,
        "reduction": reduction, "device_reduction": way,
    }  # fmt: skip
    runs = [fit(Settings(parallel=parallel, **keys)) for parallel in PARALLEL]
    for run in runs[1:]:
        for name, column in runs[0].record.items():
            np.testing.assert_allclose(run.record[name], column, rtol=2e-5, atol=1e-6, err_msg=name)
        for device in range(4):
            np.testing.assert_allclose(
                flat(run.state(12, device).params), flat(runs[0].state(12, device).params), rtol=2e-5, atol=1e-6
            )
    assert (runs[0].record["spread"] > 0).all() == (way == "none")


def test_a_forgotten_reduction_drifts_and_says_so():
    run = fit(Settings(devices=4, device_reduction="none", steps=60))
    spread = run.record["spread"]
    assert spread[0] > 0
    ends = [flat(run.state(60, device).params) for device in range(4)]
    apart = (np.max(ends, axis=0) - np.min(ends, axis=0)).max()
    assert spread[-1] == pytest.approx(apart / np.abs(ends).max(), rel=1e-5)
    assert spread[0] < spread[10] < spread[-1]
    told = " ".join(finding.text for finding in of_run(run))
    assert "4 devices drifted apart: from update 0 on" in told
    (finding,) = of_update(run.at(0))
    assert "No device sees the others' gradients: the first used its own 64 examples of 256" in finding.text


def test_the_sum_over_devices_is_said_to_be_too_long():
    (finding,) = of_update(fit(Settings(devices=4, device_reduction="sum", steps=1)).at(0))
    assert "The 4 devices' gradients are added and not divided: 4 times" in finding.text


def test_a_batch_that_does_not_divide_is_padded_and_every_example_counts_once():
    run = fit(Settings(batch_size=250, devices=8, microbatches=1, steps=1))
    update = run.at(0)
    assert [device.examples for device in update.devices] == [32] * 7 + [26]
    assert update.agreement.relative_error < 2e-6
    assert fit(Settings(task="linear", batch_size=19, devices=4, microbatches=1, steps=1)).at(
        0
    ).agreement.relative_error < (2e-6)
    few = fit(Settings(task="scalar", xs="1,2,3", devices=4, microbatches=1, steps=1)).at(0)
    assert [device.examples for device in few.devices] == [1, 1, 1, 0]
    assert few.agreement.relative_error < 2e-6
    assert "8 devices x 1 microbatch" in headline(run.settings)


def test_what_each_device_reports_is_what_numpy_says():
    groups = [np.array([[1.0, 2], [3, -1]]), np.array([[0.0, 4]]), np.array([[-2.0, 1], [5, 5], [1, 0]])]
    text = "/".join(",".join(":".join(map(str, row)) for row in group) for group in groups)
    run = hand(text, devices=3, w="1,2", steps=2)
    own, everything = [group.mean(0) for group in groups], np.concatenate(groups).mean(0)
    np.testing.assert_allclose(run.record["device_grad_norm"][0], np.linalg.norm(own, axis=1), rtol=1e-6)
    cosines = [g @ everything / np.linalg.norm(g) / np.linalg.norm(everything) for g in own]
    np.testing.assert_allclose(run.record["device_cosine"][0], cosines, rtol=1e-6)
    np.testing.assert_allclose(run.record["device_loss"][0], [(group @ [1, 2]).mean() for group in groups], rtol=1e-6)
    pairs = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in own] for a in own]
    np.testing.assert_allclose([d.to_others for d in run.at(0).devices], pairs, rtol=1e-6)


@pytest.mark.parametrize("step", [0, 7, 33])
@pytest.mark.parametrize("way", ["global", "none"])
def test_any_update_opens_as_it_happened(step, way):
    run = fit(Settings(devices=2, device_reduction=way, steps=40))
    update = run.at(step)
    np.testing.assert_allclose([d.loss for d in update.devices], run.record["device_loss"][step], rtol=1e-5)
    np.testing.assert_allclose(
        [d.gradient.norm for d in update.devices], run.record["device_grad_norm"][step], rtol=1e-4
    )
    np.testing.assert_allclose(update.applied.norm, run.record["update_norm"][step], rtol=1e-4)
    assert [(m.device, m.index) for m in update.microbatches] == [(d, k) for d in range(2) for k in range(8)]


def test_a_run_in_chunks_is_the_same_bit_for_bit_and_traced_once():
    settings = Settings(task="linear", devices=2, steps=77, hidden="5")
    whole = fit(settings)
    before = TRACES[Plan(settings).recipe]
    parts = fit(settings.replace(seed=0, learning_rate=0.05), progress=lambda progress: None)
    for name, column in whole.record.items():
        np.testing.assert_array_equal(column, parts.record[name])
    assert before == TRACES[Plan(settings).recipe] == 1


def test_an_overflow_on_one_device_skips_the_update_on_all():
    run = hand(
        "1/60000", compute_dtype="float16", loss_scaling="dynamic", loss_scale=2, steps=3, learning_rate=1e-4
    )  # fmt: skip
    assert run.record["skipped"].tolist() == [True, False, False]
    assert run.record["spread"].tolist() == [0, 0, 0]
    assert run.at(0).broke == ("backward", "w", 0, 1)
    broken = diagnose(hand("1/60000", compute_dtype="float16", loss_scaling="static", loss_scale=2))
    assert broken is not None
    assert "microbatch 1 of 1 on device 2" in broken.text


def test_columns_of_devices_are_written_one_by_one():
    rows = list(csv.reader(io.StringIO(hand("4/2,2,2").record.to_csv())))
    told = dict(zip(rows[0], rows[1], strict=True))
    assert (told["device_loss_0"], told["device_loss_1"]) == ("4.0", "2.0")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"devices": 9}, ["devices=9", "1 to 8"]),
        ({"devices": 0}, ["devices=0", "1 to 8"]),
        ({"device_reduction": "pmean"}, ["device_reduction=pmean", "global, mean, sum, none"]),
        ({"parallel": "pjit"}, ["parallel=pjit", "pmap, shard_map, auto"]),
        ({"task": "hand", "gradients": "1/2/3", "devices": 2}, ["3 group(s)", "2 devices cannot share evenly"]),
        ({"task": "hand", "gradients": "1/2/3/4", "devices": 2, "microbatches": 4}, ["for 2 devices", "set it to 2"]),
    ],
)
def test_what_cannot_be_is_refused_with_the_limit(keys, words):
    with pytest.raises(SettingsError) as refusal:
        Settings(**keys)
    for word in words:
        assert word in str(refusal.value)


def test_more_devices_than_there_are_is_refused_with_the_cure():
    check(8)
    with pytest.raises(SettingsError, match="devices=9: there are 8 here; use at most 8, or set JAX_NUM_CPU_DEVICES"):
        check(9)
    assert described(4) == "4 simulated devices on one CPU"
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", "run", "devices=4"],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "JAX_NUM_CPU_DEVICES": "2"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("training-lab: devices=4: there are 2 here; use at most 2, or set JAX_NUM_CPU")
    assert len(done.stderr.splitlines()) == 1
