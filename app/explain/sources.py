"""Where to read more: papers, official documentation, and the sections of the README."""

from collections.abc import Mapping
from typing import NamedTuple

from lab.settings import Settings


class Source(NamedTuple):
    """What it is called, and where it is; the README has no address of its own."""

    text: str
    link: str = ""


def arxiv(text: str, number: str) -> Source:
    return Source(text, f"https://arxiv.org/abs/{number}")


def readme(section: str) -> Source:
    return Source(f"README, “{section}”")


ADAM = arxiv("Kingma and Ba 2015", "1412.6980")
ADAMW = arxiv("Loshchilov and Hutter 2019", "1711.05101")
LION = arxiv("Chen et al. 2023", "2302.06675")
SGDR = arxiv("Loshchilov and Hutter 2017", "1608.03983")
LARGE_BATCHES = arxiv("Goyal et al. 2017", "1706.02677")
MIXED_PRECISION = arxiv("Micikevicius et al. 2018", "1710.03740")
BFLOAT16 = arxiv("Kalamkar et al. 2019", "1905.12322")
TRANSFORMER = arxiv("Vaswani et al. 2017", "1706.03762")
NORM_CLIP = arxiv("Pascanu et al. 2013", "1211.5063")
OPTAX_SCHEDULES = Source("optax, schedules", "https://optax.readthedocs.io/en/latest/api/optimizer_schedules.html")
OPTAX_ACCUMULATION = Source(
    "optax, gradient accumulation",
    "https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html",
)
MEANS_OF_TOKENS = Source("Hugging Face 2024, fixed bug", "https://huggingface.co/blog/gradient_accumulation")
AMP = Source("PyTorch, AMP examples", "https://docs.pytorch.org/docs/stable/notes/amp_examples.html")
DROPOUT = Source("Srivastava et al. 2014", "https://jmlr.org/papers/v15/srivastava14a.html")
JAX_KEYS = Source("JAX, random numbers", "https://docs.jax.dev/en/latest/random-numbers.html")
JAX_PSUM = Source("JAX, lax.psum", "https://docs.jax.dev/en/latest/_autosummary/jax.lax.psum.html")
JAX_PMAP = Source("JAX, pmap", "https://docs.jax.dev/en/latest/_autosummary/jax.pmap.html")
JAX_SHARD_MAP = Source("JAX, shard_map", "https://docs.jax.dev/en/latest/notebooks/shard_map.html")
JAX_SHARDED = Source(
    "JAX, distributed arrays",
    "https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html",
)
PLAYGROUND = arxiv("Smilkov et al. 2017", "1708.03788")
DATA_PARALLEL = arxiv("Shallue et al. 2019", "1811.03600")
SUMMATION = Source("Higham 1993", "https://doi.org/10.1137/0914050")
BY_HAND, TASKS, SETTINGS = readme("A first experiment, by hand"), readme("Tasks"), readme("Settings")
DEVICES = readme("Devices")

SOURCES: dict[str, Source | Mapping[str, Source]] = {
    "task": {
        "scalar": BY_HAND,
        "hand": TASKS,
        "linear": TASKS,
        "points": PLAYGROUND,
        "digits": Source("UCI, Optical Recognition of Handwritten Digits", "https://doi.org/10.24432/C50P49"),
        "names": Source("Python, unicodedata", "https://docs.python.org/3/library/unicodedata.html"),
        "table": readme("Your own table"),
        "file": readme("Your own loss"),
    },
    "xs": BY_HAND,
    "ys": BY_HAND,
    "gradients": TASKS,
    "w": TASKS,
    "shape": PLAYGROUND,
    "noise": TASKS,
    "table": readme("Your own table"),
    "target": readme("Your own table"),
    "hidden": arxiv("He et al. 2015", "1502.01852"),
    "file": readme("Your own loss"),
    "norm": {
        "none": TASKS,
        "layer": arxiv("Ba et al. 2016", "1607.06450"),
        "batch": arxiv("Ioffe and Szegedy 2015", "1502.03167"),
    },
    "dropout": DROPOUT,
    "dropout_keys": JAX_KEYS,
    "layers": TRANSFORMER,
    "width": TRANSFORMER,
    "batch_size": DATA_PARALLEL,
    "microbatches": OPTAX_ACCUMULATION,
    "order": arxiv("Gürbüzbalaban et al. 2015", "1510.08560"),
    "deal": SETTINGS,
    "reduction": {
        "mean": SETTINGS,
        "sum": SETTINGS,
        "mean_of_means": MEANS_OF_TOKENS,
        "sum_of_means": MEANS_OF_TOKENS,
    },
    "accumulator_dtype": SUMMATION,
    "optimizer": {
        "sgd": arxiv("Bottou et al. 2018", "1606.04838"),
        "momentum": Source("Sutskever et al. 2013", "https://proceedings.mlr.press/v28/sutskever13.html"),
        "adam": ADAM,
        "adamw": ADAMW,
        "lion": LION,
    },
    "learning_rate": arxiv("Bengio 2012", "1206.5533"),
    "schedule": {
        "constant": OPTAX_SCHEDULES,
        "linear": OPTAX_SCHEDULES,
        "exponential": OPTAX_SCHEDULES,
        "staircase": OPTAX_SCHEDULES,
        "cosine": SGDR,
        "warmup_cosine": SGDR,
        "warmup_linear": LARGE_BATCHES,
        "one_cycle": arxiv("Smith and Topin 2017", "1708.07120"),
        "restarts": SGDR,
        "polynomial": OPTAX_SCHEDULES,
        "piecewise": OPTAX_SCHEDULES,
        "warmup_stable_decay": arxiv("Hu et al. 2024", "2404.06395"),
    },
    "warmup_steps": LARGE_BATCHES,
    "decay_steps": OPTAX_SCHEDULES,
    "decay_rate": OPTAX_SCHEDULES,
    "final_fraction": OPTAX_SCHEDULES,
    "schedule_counts": OPTAX_ACCUMULATION,
    "clip": {
        "none": NORM_CLIP,
        "global_norm": NORM_CLIP,
        "value": Source("optax, clip", "https://optax.readthedocs.io/en/latest/api/transformations.html"),
        "per_tensor": NORM_CLIP,
        "adaptive": arxiv("Brock et al. 2021", "2102.06171"),
    },
    "clip_at": AMP,
    "param_dtype": {"float32": MIXED_PRECISION, "float16": MIXED_PRECISION, "bfloat16": BFLOAT16},
    "compute_dtype": {"float32": MIXED_PRECISION, "float16": MIXED_PRECISION, "bfloat16": BFLOAT16},
    "loss_scaling": MIXED_PRECISION,
    "loss_scale": MIXED_PRECISION,
    "growth_interval": AMP,
    "devices": LARGE_BATCHES,
    "device_reduction": {"global": JAX_PSUM, "mean": DEVICES, "sum": DEVICES, "none": DEVICES},
    "parallel": {"pmap": JAX_PMAP, "shard_map": JAX_SHARD_MAP, "auto": JAX_SHARDED},
    "steps": DATA_PARALLEL,
    "seed": JAX_KEYS,
}
"""Key -> its source, or choice -> the source of each."""
SAME_AS = {"weight_decay": "optimizer", "clip_threshold": "clip"}
"""Keys whose source is that of another's choice."""


def source(name: str, settings: Settings) -> Source:
    """Where to read more about a setting, as it is chosen."""
    name = SAME_AS.get(name, name)
    found = SOURCES[name]
    return found if isinstance(found, Source) else found[getattr(settings, name)]
