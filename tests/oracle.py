"""Whole trainings in plain NumPy and float64, written from the definitions.

Imports neither JAX nor the laboratory. Parameters and gradients are lists of arrays: [w] for scalar and hand,
[b, w] for linear, [bias, weight] of every layer for digits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Tensors = list[np.ndarray]
Batch = Mapping[str, np.ndarray]
Sums = Callable[[Tensors, Batch], tuple[float, Tensors]]


class Choices(NamedTuple):
    reduction: str = "mean"
    optimizer: str = "sgd"
    weight_decay: float = 0.01
    clip: str = "none"
    clip_threshold: float = 1.0
    clip_at: str = "update"


def scalar(params: Tensors, batch: Batch) -> tuple[float, Tensors]:
    """Sum of (w x - y)^2 and its derivative."""
    error = params[0] * batch["x"] - batch["y"]
    return float((error**2).sum()), [np.asarray((2 * error * batch["x"]).sum())]


def hand(params: Tensors, batch: Batch) -> tuple[float, Tensors]:
    """Sum of w . x and its derivative."""
    return float((batch["x"] @ params[0]).sum()), [batch["x"].sum(axis=0)]


def linear(params: Tensors, batch: Batch) -> tuple[float, Tensors]:
    """Sum of (x . w + b - y)^2 and its derivatives."""
    b, w = params
    error = batch["x"] @ w + b - batch["y"]
    return float((error**2).sum()), [np.asarray(2 * error.sum()), 2 * batch["x"].T @ error]


def digits(params: Tensors, batch: Batch) -> tuple[float, Tensors]:
    """Sum of -log softmax at the label, of a relu network, by backpropagation."""
    biases, weights = params[0::2], params[1::2]
    layers = [batch["x"]]
    for bias, weight in zip(biases[:-1], weights[:-1], strict=True):
        layers.append(np.maximum(layers[-1] @ weight + bias, 0))
    scores = layers[-1] @ weights[-1] + biases[-1]
    scores = scores - scores.max(axis=1, keepdims=True)
    log_share = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    back = np.exp(log_share) - np.eye(10)[batch["y"]]
    gradient: Tensors = []
    for layer, weight in zip(reversed(layers), reversed(weights), strict=True):
        gradient = [back.sum(axis=0), layer.T @ back, *gradient]
        back = (back @ weight.T) * (layer > 0)
    return -float((log_share * np.eye(10)[batch["y"]]).sum()), gradient


SUMS: dict[str, Sums] = {"scalar": scalar, "hand": hand, "linear": linear, "digits": digits}


def cut(batch: Batch, microbatches: int) -> list[Batch]:
    """Contiguous microbatches of ceil(B / m) examples, until there are no more; the last may be short or empty."""
    size = -(-len(batch["x"]) // microbatches)
    return [{name: x[k * size : (k + 1) * size] for name, x in batch.items()} for k in range(microbatches)]


def length(tensors: Tensors) -> float:
    return float(np.sqrt(sum((x**2).sum() for x in tensors)))


def shorten(tensors: Tensors, limit: float) -> Tensors:
    own = length(tensors)
    return [x * limit / own for x in tensors] if own > limit else tensors


def limit_units(gradient: np.ndarray, weight: np.ndarray, share: float) -> np.ndarray:
    """Brock et al. 2021: a unit is a column of a matrix, or a whole vector or scalar."""
    axis = 0 if gradient.ndim == 2 else None
    own = np.sqrt((gradient**2).sum(axis=axis, keepdims=True))
    most = share * np.maximum(np.sqrt((weight**2).sum(axis=axis, keepdims=True)), 1e-3)
    return np.where(own > most, gradient * most / np.where(own > 0, own, 1), gradient).reshape(gradient.shape)


def clipped(kind: str, gradient: Tensors, params: Tensors, limit: float) -> Tensors:
    if kind == "global_norm":
        return shorten(gradient, limit)
    if kind == "per_tensor":
        return [shorten([x], limit)[0] for x in gradient]
    if kind == "value":
        return [np.clip(x, -limit, limit) for x in gradient]
    if kind == "adaptive":
        return [limit_units(x, w, limit) for x, w in zip(gradient, params, strict=True)]
    return gradient


def reduced(kind: str, sums: Sequence[Tensors], weights: Sequence[float]) -> Tensors:
    """The gradient as the four reductions define it; a microbatch without examples has no mean and adds nothing."""
    filled = [(tensors, weight) for tensors, weight in zip(sums, weights, strict=True) if weight > 0]
    if kind in ("sum", "mean"):
        total = [np.sum(x, axis=0) for x in zip(*[tensors for tensors, _ in filled], strict=True)]
        return total if kind == "sum" else [x / sum(weights) for x in total]
    means = [[x / weight for x in tensors] for tensors, weight in filled]
    total = [np.sum(x, axis=0) for x in zip(*means, strict=True)]
    return total if kind == "sum_of_means" else [x / len(weights) for x in total]


class Optimizer:
    """sgd, momentum 0.9, adam and adamw (0.9, 0.999, 1e-8), lion (0.9, 0.99); decay is decoupled."""

    def __init__(self, name: str, decay: float, params: Tensors):
        self.name, self.decay, self.count = name, decay, 0
        self.first = [np.zeros_like(x) for x in params]
        self.second = [np.zeros_like(x) for x in params]

    def direction(self, gradient: Tensors, params: Tensors) -> Tensors:
        self.count += 1
        if self.name == "sgd":
            return gradient
        if self.name == "momentum":
            self.first = [0.9 * m + g for m, g in zip(self.first, gradient, strict=True)]
            return self.first
        if self.name == "lion":
            signs = [np.sign(0.9 * m + 0.1 * g) for m, g in zip(self.first, gradient, strict=True)]
            self.first = [0.99 * m + 0.01 * g for m, g in zip(self.first, gradient, strict=True)]
            return [s + self.decay * x for s, x in zip(signs, params, strict=True)]
        self.first = [0.9 * m + 0.1 * g for m, g in zip(self.first, gradient, strict=True)]
        self.second = [0.999 * v + 0.001 * g**2 for v, g in zip(self.second, gradient, strict=True)]
        one, two = 1 - 0.9**self.count, 1 - 0.999**self.count
        adam = [m / one / (np.sqrt(v / two) + 1e-8) for m, v in zip(self.first, self.second, strict=True)]
        decay = self.decay if self.name == "adamw" else 0.0
        return [d + decay * x for d, x in zip(adam, params, strict=True)]


def train(
    sums: Sums, params: Tensors, updates: Sequence[Sequence[Batch]], rates: Sequence[float], choices: Choices
) -> tuple[Tensors, dict[str, np.ndarray]]:
    """Parameters after the updates, and what the record should say of each update.

    Args:
        updates: the microbatches of every update.
        rates: the learning rate of every update.
    """
    kind, clip, limit = choices.reduction, choices.clip, choices.clip_threshold
    optimizer = Optimizer(choices.optimizer, choices.weight_decay, params)
    rows = []
    for microbatches, rate in zip(updates, rates, strict=True):
        weights = [len(batch["x"]) for batch in microbatches]
        losses, gradients = zip(*[sums(params, batch) for batch in microbatches], strict=True)
        before = reduced(kind, gradients, weights)
        if clip != "none" and choices.clip_at == "microbatch":
            own = [1 if kind == "sum" else max(weight, 1) for weight in weights]
            means = [[x / n for x in tensors] for tensors, n in zip(gradients, own, strict=True)]
            short = [clipped(clip, mean, params, limit) for mean in means]
            share = np.mean([length(s) < length(m) for s, m in zip(short, means, strict=True)])
            restored = [[x * n for x in tensors] for tensors, n in zip(short, own, strict=True)]
            after = reduced(kind, restored, weights)
        else:
            after = clipped(clip, before, params, limit)
            share = float(length(after) < length(before))
        applied = [-rate * x for x in optimizer.direction(after, params)]
        rows.append(
            {
                "loss": sum(losses) / sum(weights),
                "objective": float(reduced(kind, [[np.asarray(loss)] for loss in losses], weights)[0]),
                "learning_rate": rate,
                "grad_norm": length(before),
                "clipped_grad_norm": length(after),
                "clipped": share,
                "update_norm": length(applied),
                "loss_scale": 1.0,
                "skipped": False,
                "finite": True,
            }
        )
        params = [x + d for x, d in zip(params, applied, strict=True)]
    return params, {name: np.array([row[name] for row in rows]) for name in rows[0]}


def distance(got: Tensors, want: Tensors) -> float:
    """Length of the difference of two lists of tensors, in float64."""
    return length([np.asarray(g, np.float64) - w for g, w in zip(got, want, strict=True)])
