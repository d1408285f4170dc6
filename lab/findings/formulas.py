"""The operations of an update as formulas: with symbols, and with the numbers of one update.

G is what a microbatch adds, A the accumulator, W a weight, g the gradient, d the optimizer's direction, u what is added
to the parameters w. A parameter alone is written as its number, several as the norm of all.
"""

import re
from typing import NamedTuple

from lab.key import scale_text
from lab.opened import Update, Vector
from lab.settings import Settings
from lab.wording import number

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
FEW = 4
"""Lists of more numbers than this are cut in the middle."""

CLIPS = {
    "global_norm": "{total} ← {total} · min(1, c / |{own}|)",
    "value": "{total} ← {total} with every coordinate of {own} kept within ±c",
    "per_tensor": "{total} ← {total} · min(1, c / |{own}|), tensor by tensor",
    "adaptive": "{total} ← {total} · min(1, c · max(|w|, 0.001) / |{own}|), unit by unit",
}
OPTIMIZERS = {
    "sgd": "d ← g",
    "momentum": "m ← 0.9 m + g;  d ← m",
    "adam": "m ← 0.9 m + 0.1 g;  v ← 0.999 v + 0.001 g²;  d ← m̂ / (√v̂ + ε)",
    "adamw": "m ← 0.9 m + 0.1 g;  v ← 0.999 v + 0.001 g²;  d ← m̂ / (√v̂ + ε) + λ w",
    "lion": "d ← sign(0.9 m + 0.1 g) + λ w;  m ← 0.99 m + 0.01 g",
}


class Formula(NamedTuple):
    """An operation with symbols, and with numbers."""

    symbols: str
    numbers: str


def alone(update: Update) -> bool:
    """Whether there is one parameter, so that the numbers are themselves and no norms."""
    return update.complete and len(update.coordinates) == 1


def amount(update: Update, vector: Vector) -> float:
    """The number that stands for a vector."""
    return float(vector.values[0]) + 0.0 if alone(update) else vector.norm


def bars(update: Update, symbol: str) -> str:
    """A symbol as what is written of it: `g` or `|g|`."""
    return symbol if alone(update) else f"|{symbol}|"


def counted(symbol: str, index: int) -> str:
    """The symbol of one of several, counted from 0: `G₁`."""
    return f"{symbol}{index + 1}".replace(str(index + 1), str(index + 1).translate(SUBSCRIPTS))


def shortened(items: list[str], between: str = ", ") -> str:
    """A list in a line, cut in the middle."""
    return between.join(items if len(items) <= FEW else [*items[:2], "…", items[-1]])


def listed(update: Update, symbol: str, vectors: list[Vector]) -> str:
    """`G₁ = 10, G₂ = 50`."""
    each = enumerate(vectors)
    return shortened([f"{bars(update, counted(symbol, k))} = {number(amount(update, v))}" for k, v in each])


def added(numbers: list[str]) -> str:
    """`10 + 50`, `1 − 0.5`."""
    return shortened(numbers, " + ").replace("+ -", "- ")


def minus(text: str) -> str:
    """A formula with minus signs for hyphens, but in exponents."""
    return re.sub("(?<!e)-", "−", text)


def gradients(update: Update) -> Formula:
    loss = "mean loss" if update.reduction.endswith("of_means") else "loss sum"
    scale = "" if update.loss_scale == 1 else "s · "
    symbols = f"Gᵢ ← ∇ ({scale}{loss} of microbatch i)"
    return Formula(symbols, listed(update, "G", [m.unclipped for m in update.microbatches]))


def own_of(update: Update, total: str, weight: str) -> str:
    """What a clip of a microbatch or a device sees: its own gradient, without weight and loss scale."""
    by = [weight] if weight else []
    by += ["s"] if update.loss_scale != 1 else []
    return total if not by else f"{total} / {by[0]}" if len(by) == 1 else f"{total} / ({' '.join(by)})"


def clip_of_microbatches(update: Update, settings: Settings, norms: list[tuple[float, float]]) -> Formula:
    """Of the own norms of all microbatches, before and after."""
    mean = update.reduction == "mean"
    symbols = CLIPS[settings.clip].format(total="Gᵢ", own=own_of(update, "Gᵢ", "Wᵢ" if mean else ""))
    seen = [own_of(update, counted("G", k), counted("W", k) if mean else "") for k in range(len(norms))]
    return Formula(symbols, _limited(settings, seen, norms))


def clip_of_devices(update: Update, settings: Settings, norms: list[tuple[float, float]]) -> Formula:
    """Of the own norms of all devices, before and after."""
    weight = {"mean": "W", "mean_of_means": "m"}.get(update.reduction, "")
    symbols = CLIPS[settings.clip].format(total="A", own=own_of(update, "A", weight))
    several = len(norms) > 1
    totals = [counted("A", k) if several else "A" for k in range(len(norms))]
    weights = [counted("W", k) if weight == "W" and several else weight for k in range(len(norms))]
    seen = [own_of(update, total, by) for total, by in zip(totals, weights, strict=True)]
    return Formula(symbols, _limited(settings, seen, norms))


def _limited(settings: Settings, seen: list[str], norms: list[tuple[float, float]]) -> str:
    """`c = 1: |G₁ / W₁| = 4 → 1`."""
    moves = [f"|{what}| = {number(old)} → {number(new)}" for what, (old, new) in zip(seen, norms, strict=True)]
    return f"c = {settings.clip_threshold:g}: {shortened(moves)}"


def accumulation(update: Update) -> Formula:
    totals = [device.stages["accumulate"] for device in update.devices]
    symbols, parts = "A ← A + Gᵢ, starting from A = 0", [m.adds for m in update.microbatches]
    if len(totals) > 1:
        return Formula(f"{symbols}, on every device", listed(update, "A", totals))
    if alone(update):
        terms = added([number(amount(update, part)) for part in parts])
    else:
        terms = f"|{shortened([counted('G', k) for k in range(len(parts))], ' + ')}|"
    return Formula(symbols, f"{bars(update, 'A')} = {terms} = {number(amount(update, totals[0]))}")


def reduction_of_microbatches(update: Update) -> Formula:
    """The accumulator as a gradient, of every device alone."""
    several = len(update.devices) > 1
    by = {"mean": "Σ Wᵢ", "mean_of_means": "m"}.get(update.reduction, "")
    each = []
    for device in update.devices:
        total = device.stages["clip_device" if "clip_device" in device.stages else "accumulate"]
        divisor = {"mean": device.weight, "mean_of_means": _pieces(update)}.get(update.reduction)
        name = counted("g", device.index) if several else "g"
        made = number(amount(update, device.stages["reduce_microbatches"]))
        how = f"{number(amount(update, total))} / {divisor:,g} = " if divisor is not None else ""
        each.append(f"{bars(update, name)} = {how}{made}")
    symbols = f"g ← A / {by}" if by else "g ← A"
    return Formula(f"{symbols}, on every device" if several else symbols, shortened(each))


def _pieces(update: Update) -> int:
    """Microbatches of every device."""
    return len(update.microbatches) // len(update.devices)


def reduction_of_devices(update: Update) -> Formula:
    count, how = len(update.devices), update.device_reduction
    symbol, from_stage = ("A", "accumulate") if how == "global" else ("g", "reduce_microbatches")
    if how == "global" and "clip_device" in update.stages:
        from_stage = "clip_device"
    given = [device.stages[from_stage] for device in update.devices]
    if how == "none":
        return Formula("gₖ ← gₖ on every device k", listed(update, "g", given))
    by, divisor = {
        "mean": ("n", f"{count}"),
        "sum": ("", ""),
        "global": {
            "mean": ("Σ Wₖ", f"{sum(device.weight for device in update.devices):,g}"),
            "mean_of_means": ("(m n)", f"{len(update.microbatches)}"),
        }.get(update.reduction, ("", "")),
    }[how]
    terms = f"|{shortened([counted(symbol, k) for k in range(count)], ' + ')}|"
    if alone(update):
        terms = added([number(amount(update, vector)) for vector in given])
        terms = f"({terms})" if by else terms
    made = number(amount(update, update.stages["reduce_devices"]))
    over = f" / {divisor}" if by else ""
    return Formula(
        f"g ← Σ {symbol}ₖ / {by}, over the devices k" if by else f"g ← Σ {symbol}ₖ, over the devices k",
        f"{bars(update, 'g')} = {terms}{over} = {made}",
    )


def unscaling(update: Update, before: Vector, after: Vector) -> Formula:
    old, new = (number(amount(update, vector)) for vector in (before, after))
    return Formula("g ← g / s", f"{bars(update, 'g')} = {old} / {scale_text(update.loss_scale)} = {new}")


def clip(update: Update, settings: Settings, before: Vector, after: Vector) -> Formula:
    old, new = (number(amount(update, vector)) for vector in (before, after))
    limit, left = f"{settings.clip_threshold:g}", bars(update, "g")
    symbols = CLIPS[settings.clip].format(total="g", own="g")
    if settings.clip == "global_norm":
        return Formula(symbols, f"{left} = {old} · min(1, {limit} / {number(before.norm)}) = {new}")
    return Formula(symbols, f"{left} = {old} → {new}, with c = {limit}")


def optimizer(update: Update, settings: Settings, before: Vector, after: Vector) -> Formula:
    """The update rule; Adam's with the averages it had and has."""
    symbols, g, d = OPTIMIZERS[settings.optimizer], amount(update, before), amount(update, after)
    moments = {name: [amount(update, vector) for vector in pair] for name, pair in update.moments.items()}
    if update.skipped or not alone(update):
        moved = [f"|{name}| = {number(old)} → {number(new)}" for name, (old, new) in moments.items()]
        given = bars(update, "g")
        return Formula(symbols, ", ".join([f"{given} = {number(g)}", *moved, f"{bars(update, 'd')} = {number(d)}"]))
    if settings.optimizer == "sgd":
        return Formula(symbols, f"d = {number(d)}")
    old, new = moments["m"]
    if settings.optimizer == "momentum":
        return Formula(symbols, f"m = {added([f'0.9 · {number(old)}', number(g)])} = {number(new)};  d = {number(d)}")
    mixed = added([f"0.9 · {number(old)}", f"0.1 · {number(g)}"])
    decay = ""
    if settings.optimizer in ("adamw", "lion"):
        decay = f" + {settings.weight_decay:g} · {number(amount(update, update.params_before))}"
    if settings.optimizer == "lion":
        return Formula(symbols, f"d = sign({mixed}){decay} = {number(d)};  m = {number(new)}")
    square_old, square_new = moments["v"]
    hats = new / (1 - 0.9 ** (update.count + 1)), square_new / (1 - 0.999 ** (update.count + 1))
    squared = f"({number(g)})" if g < 0 else number(g)
    squares = f"v = 0.999 · {number(square_old)} + 0.001 · {squared}² = {number(square_new)}"
    made = f"d = {number(hats[0])} / √{number(hats[1])}{decay} = {number(d)}"
    return Formula(symbols, f"m = {mixed} = {number(new)};  {squares};  {made}")


def rate(update: Update, before: Vector, after: Vector) -> Formula:
    old, new = amount(update, before), amount(update, after)
    if update.skipped:
        return Formula("u ← −η d, and 0 if the update is skipped", f"{bars(update, 'u')} = {number(new)}")
    sign = "-" if alone(update) else ""
    factor = f"({number(old)})" if old < 0 else number(old)
    return Formula("u ← −η d", f"{bars(update, 'u')} = {sign}{number(update.learning_rate)} · {factor} = {number(new)}")


def step(update: Update) -> Formula:
    old, new = update.params_before, update.stages["update"]
    moved = number(amount(update, update.applied))
    if alone(update):
        terms = added([number(amount(update, old)), moved])
        return Formula("w ← w + u", f"w = {terms} = {number(amount(update, new))}")
    return Formula("w ← w + u", f"|w| = {number(old.norm)} → {number(new.norm)}, with |u| = {moved}")
