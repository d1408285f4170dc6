"""What the page shows of a task: surfaces, names, memory, the user's own data. All of it is text, never markup."""

import re

import jax
import pytest
from page import ROOT, address, charts, choose, opened, said, settled, upload

from lab import tables, user_file

pytestmark = pytest.mark.page


def test_points_show_their_surface_and_a_compared_one_beside_it():
    app = opened(task="points", steps="20", against="optimizer=sgd")
    while "divergence" not in charts(app):
        settled(app.run())
    shown = charts(app)
    frames = shown["surface"]["figure"]["frames"]
    assert [frame["name"] for frame in frames] == ["before update 0", "before update 16", "after 20 updates"]
    assert frames[0]["traces"] == [0, 3] and "in the compared run" in shown["surface"]["summary"]
    assert {"loss", "divergence", "rate"} <= set(shown)


def test_names_show_what_the_model_spells():
    app = opened(task="names", steps="3", batch_size="16", microbatches="2")
    assert charts(app)["loss"]["figure"]["layout"]["yaxis"]["title"]["text"] == "loss per token"
    app.session_state.view = "names"
    shown = charts(settled(app.run()))
    assert {"letters", "tokens"} <= set(shown)
    assert "Names the model makes up" in said(app)
    app.session_state.view = "names"
    choose(app, "task", "scalar")
    assert "accumulator" in charts(app)


def test_memory_is_measured_in_the_background_and_drawn():
    app = opened(task="points", steps="2", batch_size="16")
    app.session_state.view = "memory"
    app.run()
    while "memory" not in charts(app):
        assert not app.exception
        app.run()
    assert "bytes at once" in charts(app)["memory"]["summary"] or "KiB at once" in charts(app)["memory"]["summary"]


def test_the_example_table_is_trained_and_its_target_chosen():
    app = opened(task="table", steps="20")
    assert "example.csv: 250 rows" in said(app)
    choose(app, "target", "garden")
    assert address(app)["target"] == "garden"
    assert "held-out accuracy" in said(app)


HOSTILE = b"""<img src=x onerror=alert(1)>,[a](http://evil.example),price
1,=1+1,3.5
2,b,4.5
3,b,
4,=1+1,1.5
5,b,2.25
6,=1+1,0.5
"""


def test_a_table_of_hostile_words_is_trained_and_shown_as_text():
    app = opened(task="table", table=tables.add(HOSTILE, "<b>x</b>.csv"), batch_size="4", microbatches="2", steps="5")
    page = said(app)
    assert "&lt;b&gt;x&lt;/b&gt;.csv: 6 rows, 3 columns" in page and "1 of 6 rows have no price" in page
    choose(app, "target", "[a](http://evil.example)")
    assert not any("evil" in m.value or "<img" in m.value for m in app.markdown)
    assert "<img" not in said(app) and "<b>x" not in said(app)


def test_a_link_to_a_table_that_is_not_here_asks_for_the_file():
    app = opened(task="table", table="0123456789ab")
    assert "choose the file again, under Task on the page" in said(app)
    assert "The data of this link are not here" in said(app)
    app.button(key="example_table").click()
    settled(app.run())
    assert "table" not in address(app) and "example.csv" in said(app)


def test_a_damaged_table_is_refused_beside_its_chooser(monkeypatch):
    app = opened(task="table", steps="5")
    upload(app, "bad.csv", b"a,a\n1,2\n")
    assert "bad.csv" in said(app) and "table" not in address(app)
    upload(app, "good.csv", HOSTILE.replace(b"6,", b"7,"))
    assert address(app)["table"] == tables.add(HOSTILE.replace(b"6,", b"7,"), "") and "good.csv" in said(app)


def test_a_task_of_ones_own_can_be_chosen_only_where_one_was_loaded(monkeypatch):
    monkeypatch.setattr(user_file, "_loaded", {})
    app = opened(task="linear", steps="3")
    assert not any("file" in option for option in app.selectbox(key="set_task").options)
    with jax.numpy_rank_promotion("allow"):
        user_file.read_task(ROOT / "assets" / "my_task.py")
    app = opened(task="linear", steps="3")
    choose(app, "task", "file")
    assert address(app)["file"] == user_file.latest()
    assert app.text_input(key="set_file").value == "my_task.py"


def test_orders_are_a_table_with_the_one_in_use_and_the_right_ones_marked():
    app = opened(task="hand", gradients="3:4/0:1", clip="global_norm", clip_at="microbatch")
    app.session_state.view = "orders"
    app.run()
    while "<table>" not in said(app):
        assert not app.exception
        app.run()
    page = said(app)
    heads = re.findall(r'<th scope="(\w+)">(.*?)</th>', page)
    assert [name for scope, name in heads if scope == "col"] == ["reduction", "at the update", "at every microbatch"]
    assert [name for scope, name in heads if scope == "row"] == ["mean", "sum", "mean_of_means", "sum_of_means"]
    assert "<caption>" in page and "then clipped: norm 1." in page
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", page)]
    assert cells == [
        "✓1 · 0°", "0.949 · 12.5° in use", "✓1 · 0°", "1.9 · 12.5°", "✓1 · 0°", "0.949 · 12.5°", "✓1 · 0°",
        "1.9 · 12.5°",
    ]  # fmt: skip
    assert page.count('class="used"') == 1
    assert "With the clip at every microbatch, all four reductions turn it by 12.5°." in page
