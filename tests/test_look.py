"""The part of an address that is not settings."""

import pytest

from app.look import Look, read


def test_an_address_and_back():
    seen = Look("reduction=sum", "epochs", "log", True, False, ("batch", "devices"), 12, "devices")
    again, refused = read(seen.query())
    assert again == seen and not refused


def test_as_usual_nothing_is_said():
    assert Look().query() == {}
    assert read({}) == (Look(), [])


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ({"axis": "hours"}, "axis=hours: choose one of updates, examples, tokens, epochs"),
        ({"scale": ""}, "scale=: choose one of auto, linear, log, log-log"),
        ({"present": "yes"}, "present=yes: write present=1, or leave it out"),
        ({"hide": "batch,cat"}, "hide=cat: there is no such group; choose from task, batch, optimizer, clipping, "
                                "precision, devices, run, exact"),
        ({"step": "-1"}, "step=-1: must be the number of an update, from 0 on"),
        ({"step": "١"}, "step=١: must be the number of an update, from 0 on"),
        ({"step": "9" * 12}, "step=999999999999: must be the number of an update, from 0 on"),
        ({"view": "<b>"}, "view=<b>: choose one of accumulator"),
    ],
)  # fmt: skip
def test_what_it_cannot_mean_is_refused_in_a_sentence_and_left_as_usual(query, refusal):
    seen, refused = read({**query, "against": "seed=1"})
    assert seen == Look(against="seed=1")
    assert len(refused) == 1
    assert refused[0].startswith(refusal)
