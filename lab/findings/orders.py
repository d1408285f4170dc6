"""What the order of reduction and clip means for one update, in a sentence."""

import numpy as np

from lab.orders import Order, Orders
from lab.wording import number

PLACES = {
    "update": "at the update",
    "microbatch": "at every microbatch",
    "device": "on every device",
    "scaled": "before unscaling",
}
"""Where a clip stands, in words."""


def degrees(angle: float) -> str:
    """An angle as a person writes it: 12.5°, 0° where it is rounding, – where there is none."""
    if not np.isfinite(angle):
        return "–"
    return f"{number(angle) if angle >= 5e-3 else 0}°"


def agrees(order: Order, within: float) -> bool:
    """Whether a combination gives the right gradient, to this relative error."""
    return order.relative_error <= within


def turns(order: Order, within: float) -> bool:
    """Whether a combination gives another direction than the right one's."""
    return bool(np.sin(np.deg2rad(min(order.angle, 90))) > within)


def of_orders(orders: Orders, within: float) -> str:
    """Which combinations agree with the full batch, which only in direction, and which turn the gradient.

    Args:
        within: the relative error up to which a gradient counts as the right one.
    """
    rows: dict[str | None, list[Order]] = {}
    for order in orders.all:
        rows.setdefault(order.clip_at, []).append(order)
    if None in rows:
        return f"Without a clip, {_of_place(rows[None], within)}."
    said: dict[str, list[str]] = {}
    for place, there in rows.items():
        said.setdefault(_of_place(there, within), []).append(PLACES[place or ""])
    if len(said) == 1:
        return f"Wherever the clip stands, {next(iter(said))}."
    return " ".join(f"With the clip {_list(places, 'or')}, {text}." for text, places in said.items())


def _of_place(there: list[Order], within: float) -> str:
    """What the reductions give with the clip in one place."""
    known = [order for order in there if np.isfinite(order.angle)]
    right = [order for order in known if agrees(order, within)]
    turned = [order for order in known if turns(order, within)]
    scaled = [order for order in known if order not in right and order not in turned]
    parts = []
    if right:
        parts.append(f"{_names(right, there)} {_verb(right, 'agree')} with the full batch")
    if scaled:
        parts.append(f"{_names(scaled, there)} {_verb(scaled, 'keep')} its direction and not its length")
    if turned:
        least, most = (degrees(pick(order.angle for order in turned)) for pick in (min, max))
        by = most if least == most else f"{least} to {most}"
        parts.append(f"{_names(turned, there)} {_verb(turned, 'turn')} it by {by}")
    if len(known) < len(there):
        left = [order for order in there if order not in known]
        parts.append(f"{_names(left, there)} {_verb(left, 'give')} no direction: zero or not finite")
    return "; ".join(parts)


def _names(some: list[Order], there: list[Order]) -> str:
    """The reductions by name; all four by number."""
    names = [order.reduction for order in some]
    if len(some) == len(there):
        return "all four reductions"
    return _list(names, "and")


def _list(names: list[str], last: str) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _verb(some: list[Order], verb: str) -> str:
    return f"{verb}s" if len(some) == 1 else verb
