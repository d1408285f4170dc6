"""Every setting there is: its default, legal values, limits, and the words that say what it is."""

import dataclasses
from typing import Any

from lab import tables
from lab.choices import (
    CLIP_PLACES,
    CLIPS,
    DEALS,
    DECAYED,
    DEVICE_REDUCTIONS,
    DROPOUT_KEYS,
    DTYPES,
    LOSS_SCALINGS,
    MOST_DEVICES,
    MOST_MICROBATCHES,
    NETWORKS,
    NORMS,
    OPTIMIZERS,
    ORDERS,
    PARALLEL,
    REDUCTIONS,
    SAMPLED,
    SCHEDULES,
    SHAPES,
    TASKS,
    WARMED_UP,
)  # fmt: skip
from lab.key import Key, parse_file, parse_gradients, parse_numbers, parse_widths

NUMBERS = "numbers with commas between them"


def key(default: Any, group: str, help: str, **facts: Any) -> Any:
    """Declare one setting of `Settings`; the facts are the fields of `Key`."""
    about = Key(group=group, help=help, default=default, **facts)
    return dataclasses.field(default=None, metadata={"key": about})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keys:
    """The settings by name; None until `lab.settings.Settings` has put a legal value in its place."""

    task: str = key(
        "digits", "task", "What is learned: the data, and the model fitted to them.", structure=True, choices=TASKS,
    )  # fmt: skip
    xs: str = key(
        "1,2,3,4",
        "task",
        "Inputs x of the examples.",
        parse=parse_numbers,
        form=NUMBERS,
        used=lambda s: s.task == "scalar",
    )
    ys: str = key(
        "0", "task", "Targets y: one for all examples, or one each.", parse=parse_numbers, form=NUMBERS,
        used=lambda s: s.task == "scalar",
    )  # fmt: skip
    gradients: str = key(
        "4/2,2,2", "task",
        "The gradient of every example: , between examples, / between microbatches, : between coordinates.",
        parse=parse_gradients, form="numbers with , / and : between them", used=lambda s: s.task == "hand",
    )  # fmt: skip
    w: str = key(
        "1", "task", "The parameter before the first update: one number, or one for each coordinate.",
        parse=parse_numbers, form=NUMBERS, used=lambda s: s.task in ("scalar", "hand"),
    )  # fmt: skip
    shape: str = key(
        "moons", "task", "Where the points of the two classes lie.", choices=SHAPES,
        used=lambda s: s.task == "points",
    )  # fmt: skip
    noise: float = key(
        0.1, "task", "Standard deviation of the noise added to every target, or to both coordinates of every point.",
        low=0, high=100, used=lambda s: s.task in ("linear", "points"),
    )  # fmt: skip
    table: str = key(
        "example", "task",
        "The data: example, or the fingerprint of a CSV file. On the command line table=FILE reads one.",
        parse=tables.parse_table, form="example, or 12 hexadecimal digits", used=lambda s: s.task == "table",
        structure=True,
    )  # fmt: skip
    target: str = key(
        "", "task", "The column to predict; empty for the last.", parse=tables.parse_target, blanks=True,
        form=f"the name of a column, at most {tables.LONGEST_NAME} characters", used=lambda s: s.task == "table",
        structure=True,
    )  # fmt: skip
    hidden: str = key(
        "64,64", "task", "Width of each hidden layer; empty for none.", parse=parse_widths,
        form="up to 4 whole numbers from 1 to 1024 with commas between them",
        by_task={"points": "16,16", "table": "16,16"}, used=lambda s: s.task in NETWORKS, structure=True,
    )  # fmt: skip
    file: str = key(
        "", "task",
        "The task of your own, by the fingerprint of its file: training-lab --task my_task.py loads it.",
        parse=parse_file, form="12 hexadecimal digits", used=lambda s: s.task == "file", structure=True,
    )  # fmt: skip
    norm: str = key(
        "none", "task",
        "Normalises every hidden layer. layer: each example by itself. batch: over the examples of a microbatch, "
        "so that cutting the batch changes the gradient.",
        choices=NORMS, used=lambda s: s.task in NETWORKS, structure=True,
    )  # fmt: skip
    dropout: float = key(
        0.0, "task", "Probability with which each hidden unit is left out of an update.", low=0, high=0.95,
        used=lambda s: s.task in NETWORKS,
    )  # fmt: skip
    dropout_keys: str = key(
        "distinct", "task",
        "What a dropout mask is drawn from. distinct: the example, so that neither the cut nor the devices change it "
        "(right). shared: the place in the microbatch, so that every microbatch and device drops the same units.",
        choices=DROPOUT_KEYS, structure=True,
        used=lambda s: s.task == "file" or (s.dropout > 0 and s.task in NETWORKS),
    )  # fmt: skip
    layers: int = key(
        1, "task", "Blocks of the transformer. 0: it sees only the last character and its place.", low=0, high=4,
        used=lambda s: s.task == "names", structure=True,
    )  # fmt: skip
    width: int = key(
        32, "task", "Features the transformer carries for every character.", low=4, high=128,
        used=lambda s: s.task == "names", structure=True,
    )  # fmt: skip

    batch_size: int = key(
        256, "batch", "Examples in one update, over all microbatches.", low=1, high=4000,
        by_task={"linear": 100, "points": 64, "names": 64, "table": 32, "file": 32},
        high_by_task={
            "linear": 1000, "points": 400, "digits": 1442, "names": 1915, "table": tables.MOST_TRAINING_ROWS,
        },
        cure="a batch cannot hold more examples than there are to train on", used=lambda s: s.task in SAMPLED,
        structure=True,
    )  # fmt: skip
    microbatches: int = key(
        8, "batch", "Pieces each device's share of the batch is cut into; the gradient is taken piece by piece.",
        low=1, high=MOST_MICROBATCHES, structure=True,
        by_task={"scalar": 2, "linear": 4, "points": 4, "table": 4, "file": 4},
    )  # fmt: skip
    order: str = key(
        "shuffled", "batch",
        "The order of the examples. shuffled: drawn anew every epoch. sorted: the same batches, each sorted by label, "
        "target or length, so that microbatches differ as much as they can. fixed: as the data come.",
        choices=ORDERS, used=lambda s: s.task in SAMPLED,
    )  # fmt: skip
    deal: str = key(
        "contiguous", "batch",
        "How a batch is dealt to the microbatches. contiguous: the first ones to the first. strided: in turn, like "
        "cards.",
        choices=DEALS, used=lambda s: s.task != "hand",
    )  # fmt: skip
    reduction: str = key(
        "mean", "batch",
        "How the microbatches' sums become one gradient. mean: sum of sums / number of examples (right). "
        "sum: never divided. mean_of_means: every microbatch counts the same. sum_of_means: means added up.",
        choices=REDUCTIONS, structure=True,
    )  # fmt: skip

    accumulator_dtype: str = key(
        "float32", "batch",
        "Number format of the accumulator. float16 keeps 11 significant bits, bfloat16 8: sums of many stop growing.",
        choices=DTYPES, structure=True,
    )  # fmt: skip

    optimizer: str = key(
        "adam", "optimizer", "The update rule: what is made of the gradient before the rate multiplies it.",
        choices=OPTIMIZERS, by_task={"scalar": "sgd", "hand": "sgd", "linear": "sgd"}, structure=True,
    )  # fmt: skip
    learning_rate: float = key(
        0.01, "optimizer", "How far an update moves along its direction: the peak of the schedule.", low=0, high=1000,
        by_task={"hand": 0.1, "linear": 0.05, "names": 0.02},
    )  # fmt: skip
    weight_decay: float = key(
        0.01, "optimizer", "Decoupled: rate x weight_decay x parameter is subtracted each update.",
        low=0, high=10, used=lambda s: s.optimizer in ("adamw", "lion"),
    )  # fmt: skip
    schedule: str = key(
        "cosine", "optimizer", "How the learning rate moves over the run.", choices=SCHEDULES,
        by_task={"scalar": "constant", "hand": "constant", "linear": "constant"},
    )  # fmt: skip
    warmup_steps: int = key(
        10, "optimizer", "Updates over which the rate climbs from 0 to its peak.", low=1, high=200_000,
        by_task={"scalar": 2, "hand": 2},
        cure="a schedule without warm-up has a name of its own, such as cosine",
        used=lambda s: s.schedule in WARMED_UP,
    )  # fmt: skip
    decay_steps: int = key(
        0, "optimizer",
        "Length of the schedule, warm-up included; 0 = to the end of the run. For staircase and restarts the "
        "length of one stair or cycle; 0 = a quarter of the run.",
        low=0, high=200_000, used=lambda s: s.schedule != "constant",
    )  # fmt: skip
    decay_rate: float = key(
        0.5, "optimizer", "Factor by which the rate falls: over decay_steps (exponential), at each stair.",
        above=0, high=1, used=lambda s: s.schedule in DECAYED,
    )  # fmt: skip
    final_fraction: float = key(
        0.0, "optimizer", "The last rate as a fraction of the peak.", low=0, high=1,
        used=lambda s: s.schedule not in ("constant", "one_cycle", *DECAYED),
    )  # fmt: skip
    schedule_counts: str = key(
        "updates", "optimizer",
        "What moves the schedule on. microbatches is the usual bug: it runs as many times too fast.",
        choices=("updates", "microbatches"), used=lambda s: s.schedule != "constant",
    )  # fmt: skip

    clip: str = key(
        "none", "clipping",
        "global_norm: shorten the whole gradient. value: limit every coordinate. "
        "per_tensor: shorten every tensor. adaptive: limit every unit's gradient to a share of its weights.",
        choices=CLIPS, structure=True,
    )  # fmt: skip
    clip_threshold: float = key(
        1.0, "clipping", "The limit: of a norm, of a coordinate, or (adaptive) as a share of the weights' norm.",
        above=0, high=1e30, cure="use clip=none to turn clipping off", used=lambda s: s.clip != "none",
    )  # fmt: skip
    clip_at: str = key(
        "update", "clipping",
        "Where the clip stands: on the reduced gradient (update, right), on every microbatch's own, on every "
        "device's own, or on the reduced gradient while it still carries the loss scale (scaled, the usual bug).",
        choices=CLIP_PLACES, used=lambda s: s.clip != "none", structure=True,
    )  # fmt: skip

    param_dtype: str = key(
        "float32", "precision",
        "Number format of the parameters and the optimizer's state. float32 keeps master weights that small updates "
        "can still move.",
        choices=DTYPES, structure=True,
    )  # fmt: skip
    compute_dtype: str = key(
        "float32", "precision",
        "Number format the model computes in, forwards and backwards, and of every microbatch's gradient; losses are "
        "float32.",
        choices=DTYPES, structure=True,
    )  # fmt: skip
    loss_scaling: str = key(
        "none", "precision",
        "Multiplies the loss before the backward pass and divides the gradient after it, so that small gradients fit "
        "into float16. dynamic halves the scale and skips the update after an overflow, and doubles it again later.",
        choices=LOSS_SCALINGS, structure=True,
    )  # fmt: skip
    loss_scale: float = key(
        2.0**15, "precision", "The loss scale; where it is dynamic, of the first update.", low=2.0**-24, high=2.0**24,
        form="2^-24 to 2^24", cure="write it as 2^15 or 32768", used=lambda s: s.loss_scaling != "none",
    )  # fmt: skip
    growth_interval: int = key(
        50, "precision", "Good updates in a row after which a dynamic loss scale doubles.", low=1, high=200_000,
        by_task={"scalar": 5, "hand": 3}, used=lambda s: s.loss_scaling == "dynamic",
    )  # fmt: skip

    devices: int = key(
        1, "devices", "Devices that train together, each on its own share of the batch in its own microbatches.",
        low=1, high=MOST_DEVICES, structure=True,
    )  # fmt: skip
    device_reduction: str = key(
        "global", "devices",
        "How the devices' gradients become one. global: sum of sums / all examples (right). mean: the mean of theirs, "
        "right only if all hold the same weight. sum: their sum, too long. none: forgotten; each trains on its own.",
        choices=DEVICE_REDUCTIONS, structure=True, used=lambda s: s.devices > 1,
    )  # fmt: skip
    parallel: str = key(
        "pmap", "devices",
        "How JAX runs the devices: pmap, shard_map, or auto (one program over sharded arrays). The numbers agree.",
        choices=PARALLEL, structure=True, used=lambda s: s.devices > 1,
    )  # fmt: skip

    steps: int = key(
        300, "run", "Updates in the run: one optimizer step each, however many microbatches it has.",
        low=1, high=200_000, by_task={"scalar": 20, "hand": 10, "linear": 200},
    )  # fmt: skip
    seed: int = key(
        0, "run", "Draws the first parameters and the order of the examples.", low=0, high=2**31 - 1,
        used=lambda s: s.task in SAMPLED,
    )  # fmt: skip
