"""The training of a multilayer perceptron in eager PyTorch, for comparison only: nothing else needs PyTorch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from lab.loops.work import Work


def eager(work: "Work") -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """What makes fresh parameters and an optimizer, and what trains them: microbatches add up, then a step."""
    # Kernels as small as these are slower on several threads.
    torch.set_num_threads(1)
    inputs, labels = (torch.from_numpy(np.array(work.data[name])) for name in ("x", "y"))
    rows = torch.from_numpy(np.array(work.rows[:, 0], np.int64))
    filled, rates = np.array(work.filled[0]), np.array(work.rates)
    places = [torch.from_numpy(np.flatnonzero(row)) for row in filled]
    weights = np.array(work.weights).tolist()
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}

    def prepare():
        layers = [
            {name: torch.from_numpy(np.array(array)).requires_grad_() for name, array in layer.items()}
            for layer in work.params
        ]
        leaves = [leaf for layer in layers for leaf in layer.values()]
        return layers, kinds[work.settings.optimizer](leaves, lr=1.0)

    def run(fresh):
        layers, optimizer = fresh
        for update, rate, weight in zip(rows, rates, weights, strict=True):
            optimizer.param_groups[0]["lr"] = float(rate)
            optimizer.zero_grad()
            for microbatch, there in zip(update, places, strict=True):
                taken = microbatch[there]
                x = inputs[taken]
                for layer in layers[:-1]:
                    x = torch.relu(x @ layer["weight"] + layer["bias"])
                scores = x @ layers[-1]["weight"] + layers[-1]["bias"]
                (functional.cross_entropy(scores, labels[taken].long(), reduction="sum") / weight).backward()
            optimizer.step()
        return [{name: leaf.detach().numpy() for name, leaf in layer.items()} for layer in layers]

    return prepare, run
