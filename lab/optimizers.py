"""Name -> optax transformation without its learning rate: gradient -> direction, to be multiplied by -rate."""

from typing import Any

import jax
import optax


def transformation(name: str, weight_decay: Any) -> optax.GradientTransformation:
    """The update rule.

    Args:
        name: sgd, momentum (0.9, Polyak 1964), adam (0.9, 0.999, 1e-8, Kingma & Ba 2015), adamw (the same with
            decoupled decay, Loshchilov & Hutter 2019) or lion (0.9, 0.99, Chen et al. 2023, decoupled decay).
        weight_decay: scalar; may be traced. Only adamw and lion use it.
    """
    return {
        "sgd": optax.identity,
        "momentum": lambda: optax.trace(decay=0.9),
        "adam": optax.scale_by_adam,
        "adamw": lambda: optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(weight_decay)),
        "lion": lambda: optax.chain(optax.scale_by_lion(), optax.add_decayed_weights(weight_decay)),
    }[name]()


def init(name: str, params: Any) -> Any:
    """The optimizer's state before the first update."""
    with jax.numpy_dtype_promotion("standard"):
        return transformation(name, 0.0).init(params)


def moments(name: str, state: Any) -> dict[str, Any]:
    """The running averages in an optimizer's state, by symbol: m of the gradients, v of their squares; sgd has none."""
    own = state[0] if name in ("adamw", "lion") else state
    fields = (("m", "trace"), ("m", "mu"), ("v", "nu"))
    return {symbol: getattr(own, field) for symbol, field in fields if hasattr(own, field)}


def direction(name: str, weight_decay: jax.Array, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
    """(direction, new state) for one update; the state keeps its dtypes, which are those of the parameters."""
    with jax.numpy_dtype_promotion("standard"):
        found, after = transformation(name, weight_decay).update(gradient, state, params)
        return found, jax.tree.map(lambda new, old: new.astype(old.dtype), after, state)
