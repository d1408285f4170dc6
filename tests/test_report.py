"""The report of a run: one file, its numbers the run's own, nothing in it that runs or asks."""

import json
import re

import pytest

from app import report
from app.look import Look
from lab import Settings, fit


def contents(text: str) -> list[dict]:
    found = re.search(r"^const contents = (.*);$", text, re.MULTILINE)
    assert found is not None
    return json.loads(found[1])


def test_it_holds_the_curves_the_open_update_and_the_command():
    run = fit(Settings(task="scalar", steps=6, reduction="sum"))
    text = report.write(run, Look(step=3, axis="examples"))
    drawn = {content["filename"]: content for content in contents(text)}
    assert {"loss", "rate", "accumulator", "reductions"} <= set(drawn)
    figure = json.loads(drawn["loss"]["figure"])
    assert figure["layout"]["xaxis"]["title"]["text"] == "examples seen"
    assert "Update 3 under the microscope" in text
    totals = [float(m.running_total.values[0]) for m in run.at(3).microbatches]
    assert json.loads(drawn["accumulator"]["figure"])["data"][0]["y"] == pytest.approx(totals)
    assert "<code>training-lab run task=scalar reduction=sum steps=6</code>" in text
    assert "sum is 4 times the full-batch gradient" in text
    for name in run.settings.used():
        assert f'<th scope="row">{name}' in text


def test_text_of_a_stranger_stays_text():
    run = fit(Settings(task="hand", gradients="1", steps=1))
    other = Settings(task="hand", gradients="2", steps=1)
    text = report.write(run, Look(against="</script><script>alert(1)</script>"), (other, fit(other).record))
    assert "alert(1)" not in text
    body = text[text.index("<body>") : text.index("<script>")]
    assert "<script" not in body


def test_nothing_in_it_asks_another_place():
    text = report.write(fit(Settings(task="scalar", steps=1)), Look())
    without_library = re.sub(r"<script>.*?</script>", "", text, count=1, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", without_library)
    assert "default-src 'none'" in text
