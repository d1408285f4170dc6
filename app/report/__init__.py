"""A run as one HTML file that opens offline: its curves, its open update, its settings, and all that draws them."""

import html
import json
from importlib.metadata import version
from pathlib import Path
from string import Template

import numpy as np

from app import chart, figures, library, words
from app.look import Look
from app.views.curves import Curve, along, over_run
from app.views.sentences import MARKS
from lab import findings
from lab.headline import headline
from lab.key import text_of
from lab.record import Record
from lab.run import Run
from lab.settings import Settings, about_key

HERE = Path(__file__).parent


def write(run: Run, look: Look, other: tuple[Settings, Record] | None = None, in_step: bool = True) -> str:
    """The file. Numbers in it are the page's; text of a user's data is escaped."""
    settings = run.settings
    update = run.at(min(look.step, run.record.length - 1))
    curves = over_run(look, settings, run.record, run.held_out, other, in_step)
    opened = [
        Curve("accumulator", figures.accumulator(update), 300),
        Curve("reductions", figures.reductions(update), 300),
        Curve("stages", figures.stages(update, settings), 400),
    ]
    where = along(look, settings, run.record.length)
    drawn = [chart.content(c.chart, c.key, c.height, where) for c in curves]
    drawn += [chart.content(c.chart, c.key, c.height) for c in opened]
    beside = html.escape(words.IN_ORANGE.format(words=other[0].command() or words.DEFAULTS)) if other else ""
    page = Template((HERE / "report.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=html.escape(headline(settings)),
        style=chart.style() + (HERE / "report.css").read_text(encoding="utf-8"),
        numbers=_numbers(run),
        findings=_sentences(findings.of_run(run)),
        compared=beside,
        curves=f"<section>{chart.HTML}</section>" * len(curves),
        step=update.step,
        of_update=_sentences(findings.of_update(update)),
        opened=f"<section>{chart.HTML}</section>" * len(opened),
        settings=_settings(settings),
        command=html.escape(f"training-lab run {settings.command()}"),
        made_with=f"training-lab {version('training-lab')}, jax {version('jax')}",
        library=library.source(),
        script=chart.script().replace("export default function", "const draw = function"),
        data=_in_script(drawn),
    )


def _in_script(value: object) -> str:
    """JSON that no text in it can end the script of."""
    return json.dumps(value).replace("<", "\\u003c")


def _sentences(found: list[findings.Finding]) -> str:
    return "".join(f'<li class="{f.level}">{MARKS[f.level]} {html.escape(f.text)}</li>' for f in found)


def _numbers(run: Run) -> str:
    """What came out, as a list of terms."""
    final = {name: value for name, value in run.final.items() if np.ndim(value) == 0}
    pairs = {name.replace("_", " "): findings.number(float(value)) for name, value in final.items()}
    return "".join(f"<div><dt>{html.escape(name)}</dt><dd>{value}</dd></div>" for name, value in pairs.items())


def _settings(settings: Settings) -> str:
    """Every setting that matters here, changed ones marked."""
    changed = settings.changed()
    rows = []
    for name in settings.used():
        mark = " •" if name in changed else ""
        value = html.escape(text_of(getattr(settings, name)))
        help_text = html.escape(about_key(name).help)
        rows.append(f'<tr><th scope="row">{name}{mark}</th><td>{value}</td><td>{help_text}</td></tr>')
    return "".join(rows)
