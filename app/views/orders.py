"""What every order of reduction and clip would have given the optimizer, as a table."""

import html

import numpy as np
import streamlit as st

from app import jobs, words
from app.jobs import answer
from app.views.waiting import on_its_way
from lab import findings
from lab.findings import number
from lab.opened import Update
from lab.orders import Order, Orders
from lab.run import Run

PATIENCE = 0.3
"""Seconds before a line says that it is being worked out."""


def orders(run: Run, job: jobs.Job | None, update: Update, step: int):
    """The table, how to read it, and what it says."""
    if on_its_way(job, words.ORDERS_WAIT, Run.orders, step, patience=PATIENCE):
        return
    found, within = answer(job, run, Run.orders, step), findings.tolerance(update)
    clip = words.THEN_CLIPPED if found.all[0].clip_at else ""
    read = words.ORDERS_READ.format(clip=clip, norm=number(found.right.norm))
    st.html(f'<p class="own">{html.escape(read)}</p>')
    st.html(table(found, within))
    st.html(f'<p class="own">{html.escape(findings.of_orders(found, within))}</p>')


def table(orders: Orders, within: float) -> str:
    """Reductions down, clip places across; ✓ where a gradient is right to the relative error `within`."""
    rows: dict[str, list[Order]] = {}
    for order in orders.all:
        rows.setdefault(order.reduction, []).append(order)
    places = [order.clip_at for order in next(iter(rows.values()))]
    called = [findings.PLACES[place] if place else words.NO_CLIP for place in places]
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in called)
    body = "".join(
        f'<tr><th scope="row">{html.escape(reduction)}</th>{"".join(cell(order, within) for order in row)}</tr>'
        for reduction, row in rows.items()
    )
    return (
        f'<div class="orders" tabindex="0" role="region" aria-label="{html.escape(words.VIEWS["orders"])}">'
        f"<table><caption>{html.escape(words.ORDERS_TABLE)}</caption>"
        f'<thead><tr><th scope="col">{html.escape(words.REDUCTION)}</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def cell(order: Order, within: float) -> str:
    """Norm and angle of one combination, marked if it is right, and if it is the one in use."""
    size = number(order.gradient.norm)
    text = f"{size} · {findings.degrees(order.angle)}" if np.isfinite(order.gradient.norm) else words.NOT_FINITE
    mark = '<span role="img" aria-label="agrees">✓</span>' if findings.agrees(order, within) else "<span></span>"
    kind, use = (' class="used"', f" <em>{html.escape(words.IN_USE)}</em>") if order.used else ("", "")
    return f"<td{kind}>{mark}{html.escape(text)}{use}</td>"
