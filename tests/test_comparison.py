"""Two settings in step: equal settings never part, others part as the mathematics says."""

import json

import numpy as np
import pytest

import lab
from lab.cli import main


def test_equal_settings_differ_by_exactly_nothing():
    settings = lab.Settings(hidden="8", steps=20, batch_size=30)
    comparison = lab.compare(settings)
    assert not comparison.loss["loss_absolute"].any()
    assert not comparison.loss["loss_relative"].any()
    assert not comparison.parameters["parameter_distance"].any()


@pytest.mark.parametrize("changes", [{"reduction": "sum"}, {"microbatches": 1}, {"optimizer": "adam", "clip": "value"}])
def test_both_sides_are_what_fit_gives(changes):
    settings = lab.Settings(task="linear", steps=33)
    comparison = lab.compare(settings, **changes)
    for run, alone in ((comparison.run, settings), (comparison.compared, settings.replace(**changes))):
        expected = lab.fit(alone)
        assert all(np.array_equal(run.record[name], expected.record[name]) for name in expected.record)
        assert np.array_equal(run.params["w"], expected.params["w"])


def test_scalar_parts_as_by_hand():
    # w shrinks by 1 - 0.01 * 15 * factor each update, the factor of sum being the 4 examples.
    comparison = lab.compare(lab.Settings(task="scalar", steps=4), reduction="sum")
    w, other = 0.85 ** np.arange(5), 0.4 ** np.arange(5)
    np.testing.assert_allclose(comparison.parameters["parameter_distance"], (w - other) / w, rtol=1e-5)
    loss, compared = 7.5 * w[:4] ** 2, 7.5 * other[:4] ** 2
    np.testing.assert_allclose(comparison.loss["loss_absolute"], loss - compared, rtol=1e-5)
    np.testing.assert_allclose(comparison.loss["loss_relative"], (loss - compared) / loss, rtol=1e-5)
    assert comparison.parameters["step"].tolist() == [0, 1, 2, 3, 4]


def test_a_side_that_diverges_is_told_as_it_is():
    comparison = lab.compare(lab.Settings(task="scalar", steps=60), learning_rate=1000)
    assert not np.isfinite(comparison.loss["loss_absolute"]).all()
    assert comparison.loss["loss_absolute"][0] == 0


def test_a_long_comparison_measures_the_parameters_at_most_a_thousand_times():
    comparison = lab.compare(lab.Settings(task="scalar", steps=2500), learning_rate=0.02)
    assert comparison.parameters["step"].tolist() == [*range(0, 2500, 3), 2500]
    assert comparison.loss.length == 2500


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"seed": 1}, "seed"), ({"batch_size": 8}, "batch_size"), ({"steps": 5}, "steps"), ({"task": "scalar"}, "task")],
)
def test_what_both_must_share_is_refused(changes, name):
    with pytest.raises(lab.SettingsError, match=f"^{name}=.*a comparison needs the same batches"):
        lab.compare(lab.Settings(task="linear"), **changes)


def test_the_command_writes_both_sides_and_their_difference(capsys):
    words = ["run", "task=scalar", "steps=3", "--against", "reduction=sum", "learning_rate=0.02", "--json", "-"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["compared"]["settings"]["reduction"] == "sum"
    assert told["compared"]["settings"]["learning_rate"] == 0.02
    assert told["settings"]["reduction"] == "mean"
    assert told["difference"]["loss_absolute"][0] == 0
    assert len(told["difference"]["parameter_distance"]) == 4
    assert len(told["compared"]["columns"]["loss"]) == 3
    assert "reduction=sum learning_rate=0.02" in err


@pytest.mark.parametrize("words", [["seed=3"], ["lerning_rate=1"], ["reduction=max"], ["nonsense"]])
def test_the_command_refuses_a_bad_comparison(capsys, words):
    assert main(["run", "task=linear", "--against", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
