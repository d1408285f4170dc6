"""The names a setting can take, and the groups of them that other settings ask about."""

TASKS = ("scalar", "hand", "linear", "points", "digits", "names", "table", "file")
REDUCTIONS = ("mean", "sum", "mean_of_means", "sum_of_means")
DTYPES = ("float32", "float16", "bfloat16")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "lion")
SCHEDULES = (
    "constant", "linear", "exponential", "staircase", "cosine", "warmup_cosine", "warmup_linear",
    "one_cycle", "restarts", "polynomial", "piecewise", "warmup_stable_decay",
)  # fmt: skip
CLIPS = ("none", "global_norm", "value", "per_tensor", "adaptive")
CLIP_PLACES = ("update", "microbatch", "device", "scaled")
DEVICE_REDUCTIONS = ("global", "mean", "sum", "none")
PARALLEL = ("pmap", "shard_map", "auto")
LOSS_SCALINGS = ("none", "static", "dynamic")

SHAPES = ("moons", "circles", "spiral")
NORMS = ("none", "layer", "batch")
ORDERS = ("shuffled", "sorted", "fixed")
DEALS = ("contiguous", "strided")
DROPOUT_KEYS = ("distinct", "shared")

MOST_MICROBATCHES = 1024
MOST_DEVICES = 8

WARMED_UP = ("warmup_cosine", "warmup_linear", "warmup_stable_decay")
DECAYED = ("exponential", "staircase", "piecewise")
REPEATED = ("staircase", "restarts")
SAMPLED = ("linear", "points", "digits", "names", "table", "file")
"""Tasks that draw batches from a data set; the others use everything typed, every update."""
NETWORKS = ("points", "digits", "table")
"""Tasks whose model is a multilayer perceptron."""
UNITS = {"names": "token"}
"""What the weights of a task count, where that is not examples."""
AXES = ("updates", "examples", "tokens", "epochs")
"""What the progress of a run can be counted in."""
