"""Bad settings: one sentence that names the key, the value, the limit and the cure, and never another exception."""

import numpy as np
import pytest

from lab import Settings, SettingsError, files

WARM = {"task": "scalar", "schedule": "warmup_linear", "steps": 10}

BAD = [
    ({"task": "digit"}, ["task=digit", "scalar, hand, linear, points, digits, names", "did you mean digits?"]),
    ({"task": ""}, ["task=", "scalar, hand, linear, points, digits, names"]),
    ({"task": "DIGITS"}, ["task=DIGITS", "digits"]),
    ({"reduction": "average"}, ["reduction=average", "mean, sum, mean_of_means, sum_of_means"]),
    ({"reduction": "mean_of_mean"}, ["did you mean mean_of_means?"]),
    ({"reduction": True}, ["reduction=True", "mean, sum"]),
    ({"optimizer": "adamW"}, ["optimizer=adamW", "sgd, momentum, adam, adamw, lion; did you mean adam"]),
    ({"schedule": "cosin"}, ["schedule=cosin", "did you mean cosine?"]),
    ({"clip": "norm"}, ["clip=norm", "none, global_norm, value, per_tensor, adaptive"]),
    ({"loss_scale": "(-8)^0.5"}, ["loss_scale=(-8)^0.5", "2^-24 to 2^24"]),
    ({"loss_scale": "-8^0.5"}, ["loss_scale=-8^0.5", "2^-24 to 2^24"]),
    ({"loss_scale": "0^-1"}, ["loss_scale=0^-1", "2^-24 to 2^24"]),
    ({"loss_scale": "2^99999"}, ["loss_scale=2^99999", "2^-24 to 2^24"]),
    ({"loss_scale": "2^25"}, ["loss_scale=2^25", "write it as 2^15 or 32768"]),
    ({"task": "hand", "gradients": "1e-39"}, ["gradients=1e-39", "from 1.2e-38"]),
    ({"clip_at": "server"}, ["clip_at=server", "update, microbatch"]),
    ({"schedule_counts": "steps"}, ["schedule_counts=steps", "updates, microbatches"]),
    ({"steps": 0}, ["steps=0", "1 to 200000"]),
    ({"steps": 200_001}, ["steps=200001", "1 to 200000"]),
    ({"steps": 2.5}, ["steps=2.5", "a whole number", "1 to 200000"]),
    ({"steps": "ten"}, ["steps=ten", "a whole number"]),
    ({"steps": ""}, ["steps=", "a whole number"]),
    ({"steps": True}, ["steps=True", "a whole number"]),
    ({"steps": "nan"}, ["steps=nan", "a whole number"]),
    ({"steps": "inf"}, ["steps=inf", "a whole number"]),
    ({"steps": "1e400"}, ["steps=1e400", "a whole number"]),
    ({"steps": "²"}, ["steps=²", "a whole number"]),
    ({"steps": "½"}, ["steps=½", "a whole number"]),
    ({"steps": [3]}, ["steps=[3]", "a whole number"]),
    ({"steps": {"a": 1}}, ["steps={'a': 1}", "a whole number"]),
    ({"steps": 1 + 2j}, ["steps=(1+2j)", "a whole number"]),
    ({"steps": 10**400}, ["steps=1000", "a whole number"]),
    ({"seed": -1}, ["seed=-1", "0 to 2147483647"]),
    ({"seed": 2**31}, ["seed=2147483648", "0 to 2147483647"]),
    ({"microbatches": 0}, ["microbatches=0", "1 to 1024"]),
    ({"microbatches": 1025}, ["microbatches=1025", "1 to 1024"]),
    ({"microbatches": -8}, ["microbatches=-8", "1 to 1024"]),
    ({"batch_size": 1443}, ["batch_size=1443", "1 to 1442", "a batch cannot hold more examples"]),
    ({"task": "linear", "batch_size": 1001}, ["batch_size=1001", "1 to 1000"]),
    ({"task": "scalar", "batch_size": 3}, ["batch_size=3", "all 4 examples", "leave batch_size out"]),
    ({"task": "hand", "batch_size": 5}, ["batch_size=5", "all 4 examples", "leave batch_size out"]),
    ({"learning_rate": -0.1}, ["learning_rate=-0.1", "0 to 1000"]),
    ({"learning_rate": np.float32("nan")}, ["learning_rate=nan", "a number", "0 to 1000"]),
    ({"learning_rate": "inf"}, ["learning_rate=inf", "0 to 1000"]),
    ({"learning_rate": "1e400"}, ["learning_rate=1e400", "0 to 1000"]),
    ({"learning_rate": "0,1"}, ["learning_rate=0,1", "a number"]),
    ({"learning_rate": False}, ["learning_rate=False", "a number"]),
    ({"weight_decay": 11}, ["weight_decay=11", "0 to 10"]),
    ({"clip_threshold": 0}, ["clip_threshold=0", "above 0", "use clip=none to turn clipping off"]),
    ({"clip_threshold": -1}, ["clip_threshold=-1", "above 0", "use clip=none to turn clipping off"]),
    ({"clip_threshold": 1e31}, ["clip_threshold=1e+31", "at most 1e+30"]),
    ({"decay_rate": 0}, ["decay_rate=0", "above 0, at most 1"]),
    ({"decay_rate": 1.1}, ["decay_rate=1.1", "above 0, at most 1"]),
    ({"final_fraction": 1.5}, ["final_fraction=1.5", "0 to 1"]),
    ({"noise": -1}, ["noise=-1", "0 to 100"]),
    ({"warmup_steps": 0}, ["warmup_steps=0", "a schedule without warm-up has a name of its own, such as cosine"]),
    (WARM | {"warmup_steps": 10}, ["warmup_steps=10", "shorter than the 10 updates of the run", "at most 9"]),
    (
        WARM | {"warmup_steps": 5, "decay_steps": 5},
        ["warmup_steps=5", "shorter than the 5 updates of the schedule", "at most 4"],
    ),
    (WARM | {"warmup_steps": 12, "decay_steps": 20}, ["warmup_steps=12", "shorter than the 10 updates of the run"]),
    ({"schedule": "one_cycle", "steps": 3}, ["schedule=one_cycle", "at least 4 updates", "has 3"]),
    ({"schedule": "piecewise", "steps": 3}, ["schedule=piecewise", "at least 4 updates", "has 3"]),
    ({"optimizer": "adamW"}, ["optimizer=adamW", "did you mean adamw?"]),
    ({"schedule": "one_cycle", "decay_steps": 2}, ["schedule=one_cycle", "at least 4 updates", "has 2"]),
    ({"hidden": "64,"}, ["hidden=64,", "whole numbers"]),
    ({"hidden": "64,0"}, ["hidden=64,0", "each 1 to 1024 wide"]),
    ({"hidden": "8,8,8,8,8"}, ["hidden=8,8,8,8,8", "at most 4 layers"]),
    ({"hidden": "1025"}, ["hidden=1025", "1 to 1024"]),
    ({"hidden": 6.5}, ["hidden=6.5", "whole numbers"]),
    ({"task": "scalar", "xs": ""}, ["xs=", "numbers with commas", "such as 1,2,3,4"]),
    ({"task": "scalar", "xs": "1;2"}, ["xs=1;2", "numbers with commas"]),
    ({"task": "scalar", "xs": "1,1e39"}, ["xs=1,1e39", "to 3.4e38"]),
    ({"task": "scalar", "w": "-1e300"}, ["w=-1e300", "to 3.4e38"]),
    ({"task": "scalar", "xs": "1" * 4001}, ["xs", "4001 characters", "at most 4000"]),
    ({"task": "scalar", "ys": "1,2"}, ["ys=1,2", "2 targets for 4 inputs", "give one target, or 4"]),
    ({"task": "scalar", "w": "1,2"}, ["w=1,2", "one parameter", "give one number"]),
    ({"task": "hand", "gradients": ""}, ["gradients=", "numbers with , / or :", "such as 4/2,2,2"]),
    ({"task": "hand", "gradients": "4//2"}, ["gradients=4//2", "numbers with , / or :"]),
    ({"task": "hand", "gradients": "1:1e39"}, ["gradients=1:1e39", "to 3.4e38"]),
    ({"task": "hand", "gradients": "1:2/3"}, ["gradients=1:2/3", "the same number of coordinates"]),
    ({"task": "hand", "w": "1,2"}, ["w=1,2", "2 numbers for 1 coordinates", "give one, or one each"]),
    ({"task": "hand", "gradients": "1:2:3", "w": "1,2"}, ["w=1,2", "2 numbers for 3 coordinates", "or one each"]),
    ({"task": "hand", "microbatches": 3}, ["microbatches=3", "2 group(s)", "set it to 2"]),
]  # fmt: skip


def one_sentence(refusal: pytest.ExceptionInfo, *pieces: str):
    text = str(refusal.value)
    assert len(text.splitlines()) == 1
    for piece in pieces:
        assert piece in text


@pytest.mark.parametrize(
    ("keys", "pieces"), BAD, ids=[" ".join(f"{k}={v}" for k, v in bad[0].items())[:50] for bad in BAD]
)
def test_a_bad_value_is_refused_in_one_sentence(keys, pieces):
    with pytest.raises(SettingsError) as refusal:
        Settings.from_dict(keys)
    one_sentence(refusal, *pieces)


@pytest.mark.parametrize(
    ("key", "pieces"),
    [("microbatch", ["did you mean microbatches?"]), ("lr", ["the keys are task, xs"])],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(key, pieces):
    for make in (lambda: Settings.from_dict({key: 8}), lambda: Settings.from_words([f"{key}=8"])):
        with pytest.raises(SettingsError) as refusal:
            make()
        one_sentence(refusal, f"{key}=8", f"there is no setting {key}", *pieces)


def test_an_unknown_key_is_refused_by_settings_itself():
    with pytest.raises(SettingsError, match="did you mean microbatches"):
        Settings(microbatch=8)  # pyright: ignore[reportCallIssue]
    with pytest.raises(SettingsError, match="did you mean microbatches"):
        Settings().replace(microbatch=8)


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\u2028b", "a\x1eb"])
@pytest.mark.parametrize("key", ["steps", "task", "learning_rate", "gradients", "nothing"])
def test_a_value_with_a_line_break_is_refused_in_one_line(key, value):
    with pytest.raises(SettingsError) as refusal:
        Settings.from_query({key: value})
    one_sentence(refusal, key)


@pytest.mark.parametrize("key", ["steps", "task", "learning_rate", "gradients", "hidden"])
def test_a_very_long_value_is_refused_in_a_sentence_that_can_be_read(key):
    with pytest.raises(SettingsError) as refusal:
        Settings.from_query({key: "x" * 100_000})
    one_sentence(refusal, key)
    assert len(str(refusal.value)) < 5000


OBJECTS = {
    "huge": 10**5000,
    "array": np.array(3.5),
    "object": object(),
    "bytes": b"\xff",
    "dict": {1: 2},
    "nested": [[1]],
}


@pytest.mark.parametrize("value", OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("key", ["steps", "xs", "learning_rate", "hidden", "task", "gradients"])
def test_any_object_is_either_legal_or_refused(key, value):
    try:
        Settings.from_dict({"task": "scalar", key: value})
    except SettingsError as refusal:
        assert key in str(refusal)


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["steps"], ["steps: settings are written KEY=VALUE", "microbatches=8"]),
        ([""], [": settings are written KEY=VALUE"]),
        (["steps=1", "steps=2"], ["steps=2: steps is given twice", "keep one"]),
        (["=3"], ["=3: settings are written KEY=VALUE"]),
        (["steps==3"], ["steps==3", "a whole number"]),
    ],
)
def test_bad_words_are_refused(words, pieces):
    with pytest.raises(SettingsError) as refusal:
        Settings.from_words(words)
    one_sentence(refusal, *pieces)


@pytest.mark.parametrize("version", ["9", "", "one", "1.0"])
def test_an_address_of_another_version_is_refused(version):
    with pytest.raises(SettingsError) as refusal:
        Settings.from_query({"v": version, "steps": "3"})
    one_sentence(refusal, f"v={version}", "reads v=1")


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("a.toml", "steps 3", ["is not valid toml"]),
        ("a.json", "{", ["is not valid json"]),
        ("a.json", "[1]", ["must hold keys and values, such as microbatches = 8"]),
        ("a.json", "3", ["must hold keys and values"]),
        ("a.json", '{"steps": NaN}', ["steps=nan", "a whole number"]),
        ("a.json", '{"step": 3}', ["step=3", "did you mean steps?"]),
        ("a.toml", "steps = true", ["steps=True"]),
        ("a.toml", "[steps]\na = 1", ["steps={'a': 1}"]),
        ("a.toml", "steps = 1979-05-27", ["steps=1979-05-27"]),
        ("a.toml", "steps = 1" + "0" * 5000, ["a.toml"]),
        ("a.json", "[" * 100_000, ["is not valid json"]),
        ("a.toml", "a = " + "[" * 100_000, ["is not valid toml"]),
        ("a.toml", b"\xff\xfe", ["is not valid toml"]),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused(tmp_path, name, text, pieces):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as refusal:
        files.read(tmp_path / name)
    one_sentence(refusal, *pieces)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(SettingsError) as refusal:
            files.read(path)
        one_sentence(refusal, str(path), "cannot be read", "give a TOML or JSON file")


def test_a_refusal_is_a_value_error():
    assert issubclass(SettingsError, ValueError)
