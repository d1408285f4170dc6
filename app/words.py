"""Every label of the page. What a setting is, and its limits, comes from `lab.settings`."""

from lab.choices import REDUCTIONS
from lab.settings import Settings

TITLE = "training-lab"
LAB, LOOPS = "Lab", "Loops"

LOOPS_LOOK = (
    "One training, written in several ways, timed on this machine: what should turn the loop, and what does it cost?"
)
NOT_COMPARED = "The loops of task={task} are not compared: choose another task."
LEFT_OUT = "Left out, because only the lab's own program does it: {words}."
MEASURING = "In a process of its own: {doing}…"
TURN = "waiting for another measurement to end"
MEASURE_AGAIN = "Measure again"
MEASURED_ON = (
    "Measured here, on {cores} of {processor}, Python {python}, jax {jax}; every timing is of {updates}, all loops in "
    "turn; nothing was compiled before."
)
STOPPED_TIMING = "Stopped: this is what was known by then."
STOPPED_BEFORE = "Stopped before anything was timed."
LOOP_TABLE = "Loops, times and memory"
LOOP_COLUMNS = ("loop", "an update takes", "middle half", "updates/s", "beside one scan", "to compile", "memory")
LOOP_NOTE = (
    "“Beside one scan” is the median of the rounds, in each of which all loops ran one after the other: what slowed a "
    "whole round does not count, and the quotient of two columns may differ. Eager PyTorch is timed too where it is "
    "installed, for digits and points."
)
LOOP_IS = {
    "ours": "the compiled program of the Lab page, with its record, snapshots and held-out measurements",
    "recording": "the same without measuring held-out examples",
    "bare": "lax.scan over all updates, in one jit; nothing recorded",
    "chunked": "lax.scan over 16 updates at a time; Python reads the loss in between",
    "python_loop": "a jitted update, called again and again; Python reads every loss",
    "multisteps": "a jitted microbatch, called again and again; optax counts them",
    "unrolled": "the scan over microbatches written out: longer to compile",
    "torch": "no compiler; on one thread",
}
DEBUGGING = "What disable_jit shows"
DEBUGGING_READ = "The same update, with a look at the loss of every microbatch: print(loss) inside the scan."
DEBUGGING_OTHER = (
    "An update of the same batch in {microbatches} on one device, because without jit it takes its time; with a look "
    "at the loss of every microbatch: print(loss) inside the scan."
)
JITTED = "jax.jit"
DISABLED = "jax.disable_jit()"
WRITTEN = "How each loop is written"
WRITTEN_LOOP = "loop"
WRITTEN_OURS = "The program itself is in lab/program.py; here it is compiled and called."

TASKS = {
    "scalar": "one number, by hand",
    "hand": "gradients you type",
    "linear": "least squares",
    "points": "points in the plane",
    "digits": "handwritten digits",
    "file": "your own file",
    "table": "your own table",
    "names": "letter by letter",
}

TASK_LOOK = {
    "scalar": "One parameter w and the loss (w·x − y)²: small enough to check every number with a pencil.",
    "hand": "You type each example's gradient; 4/2,2,2 is one microbatch of one example and one of three.",
    "linear": "Least squares with a known answer: watch the held-out loss sink to the noise, and no further.",
    "points": "Two classes no straight line parts: play the surface and watch the network bend its own around them.",
    "file": "Your own loss: what it should have given, whatever the cut, the devices and the number formats.",
    "digits": "Real digits, some never trained on: watch their dashed line part from the solid one.",
    "table": "A CSV file: one column is predicted from the others. The one that ships holds made-up houses and prices.",
    "names": "A name weighs as many tokens as it has: try mean_of_means, then order=sorted, under the microscope.",
}

GROUPS = {
    "task": "Task",
    "batch": "Batch",
    "optimizer": "Optimizer",
    "clipping": "Clipping",
    "precision": "Precision",
    "devices": "Devices",
    "run": "Run",
}

LABELS = {
    "xs": "inputs x",
    "ys": "targets y",
    "w": "first parameter w",
    "hidden": "hidden layers",
    "dropout_keys": "dropout keys",
    "batch_size": "batch size",
    "accumulator_dtype": "accumulator dtype",
    "learning_rate": "learning rate",
    "weight_decay": "weight decay",
    "warmup_steps": "warm-up updates",
    "decay_steps": "schedule length",
    "decay_rate": "decay factor",
    "final_fraction": "final fraction",
    "schedule_counts": "schedule counts",
    "clip": "clip",
    "clip_threshold": "clip threshold",
    "clip_at": "clip at",
    "param_dtype": "parameter dtype",
    "compute_dtype": "compute dtype",
    "loss_scaling": "loss scaling",
    "loss_scale": "loss scale",
    "growth_interval": "growth interval",
    "device_reduction": "device reduction",
    "parallel": "run by",
    "steps": "updates",
}

LEGAL = "Legal: {limits}."
COMPILES = "Changing it compiles a new program."

TAKE = "Share"
LINK = "A link to this run:"
SETTINGS_FILE = "Settings (TOML)"
CSV_FILE = "All columns (CSV)"
JSON_FILE = "Everything (JSON)"

TABLE = "{name}: {rows:,} rows, {columns} columns"
NO_TABLE = "The data of this link are not here: a link names a table and cannot carry it. Choose the file again."
CHOOSE_TABLE = "another CSV file"
EXAMPLE_TABLE = "Back to the example"

EXACT = "Any setting, exactly"
EXACT_HELP = "KEY=VALUE words, as on the command line and in the address: microbatches=7 learning_rate=3e-4"
MICROSCOPE = "One update under the microscope"
MICROSCOPE_HELP = "Any update of the run, replayed bit for bit. A click on a curve opens the update there."
BATCH_NORM = (
    "With batch norm the gradient itself depends on the cut, and what the accumulator's format costs cannot be told "
    "from that. Choose norm=layer to see it."
)
VIEWS = {
    "accumulator": "Accumulator",
    "stages": "Stages",
    "orders": "Order",
    "precision": "Precision",
    "devices": "Devices",
    "names": "Names",
    "memory": "Memory",
}
MEMORY_WAITS = "Compiling the update once for every number of microbatches; this takes a few seconds…"
ORDERS_WAIT = "Working out every order of reduction and clip…"
ORDERS_READ = (
    "Every cell is the gradient the optimizer would have been given in this update: its norm, and its angle to the "
    "right one. Right is the mean over the whole batch at once in float64{clip}: norm {norm}. ✓ marks what agrees with "
    "it."
)
THEN_CLIPPED = ", then clipped"
ORDERS_TABLE = "The gradient by reduction and place of the clip: norm · angle"
REDUCTION = "reduction"
NO_CLIP = "no clip"
IN_USE = "in use"
NOT_FINITE = "not finite"
MADE_UP = "Names the model makes up before this update"
ONE_DEVICE = "This run uses one device. Choose more under Devices to see whether they agree."
RUNS_ON = "Runs on {devices}."
TRY = "Try {words}"
WAITING = "Compiling this kind of program; the first time takes about a second…"
TRAINING = "update {step:,} of {steps:,} · loss {loss} · {seconds} s, about {remaining} s left"
NOTHING = "Stopped before the first update: there is nothing to draw yet."

AGAINST = "compare with"
AGAINST_HELP = (
    "A second run from the same first parameters over the same batches, drawn in orange. "
    "Choose one, or type any settings: `reduction=sum optimizer=sgd`"
)
NOBODY = "nothing"
PIN, UNPIN = "Pin", "Unpin"
PIN_HELP = "Keep this run in every chart, in orange, as the baseline of whatever you change next."
BASELINE = "baseline: {words}"
THE_BASELINE = "this run is the baseline: change a setting"
APART = (
    "The two runs differ in {keys}, so they saw other batches or began elsewhere: their curves can be compared, single "
    "updates cannot."
)
DEFAULTS = "the defaults"
IN_ORANGE = "In orange, beside it: {words}"
HISTORY = "History: {runs} of this visit"

DISPLAY = "Display"
AXIS = "draw curves over"
AXES = {"updates": "updates", "examples": "examples", "tokens": "tokens", "epochs": "epochs"}
AXIS_HELP = (
    "Runs of different batch sizes compare fairly over examples, tokens or epochs: an epoch is every example once."
)
SCALE = "axes"
SCALES = {"auto": "as suits", "linear": "linear", "log": "log", "log-log": "log-log"}
SCALE_HELP = "`log` makes equal ratios equally high; `log-log` also stretches the beginning of the run."
PRESENT = "Present"
PRESENT_HELP = "Large type and few controls, for a class or a projector."
LEAVE = "Leave the presentation"
OPEN_LAB = "Open in training-lab"
REPORT_FILE = "Report (HTML, opens offline)"
SHARE_MORE = (
    "Each chart's ⋯ saves it as PNG or SVG. Add `&present=1`, `&embed=1` or `&hide=optimizer,devices` to the link for "
    "a class."
)
AGAINST_WAITS = "Training the run to compare with…"


def compared_with(settings: Settings) -> dict[str, str]:
    """What can be compared with one click: the words, and what they are called."""
    offered = {}
    if settings.task != "hand" and settings.microbatches > 1:
        offered["microbatches=1 reduction=mean"] = "the full batch at once (microbatches=1 reduction=mean)"
    offered |= {f"reduction={name}": f"reduction={name}" for name in REDUCTIONS if name != settings.reduction}
    if settings.devices > 1 and settings.task != "hand":
        offered["devices=1"] = "one device (devices=1)"
    if settings.devices > 1 and settings.device_reduction != "global":
        offered["device_reduction=global"] = "devices reduced right (device_reduction=global)"
    formats = ("param_dtype", "compute_dtype", "accumulator_dtype")
    coarse = [name for name in formats if getattr(settings, name) != "float32"]
    if coarse:
        everywhere = " ".join([*(f"{name}=float32" for name in coarse), "loss_scaling=none"])
        offered[everywhere] = f"float32 everywhere ({everywhere})"
    else:
        offered["compute_dtype=float16"] = "computed in float16 (compute_dtype=float16)"
    if settings.compute_dtype == "float16" and settings.loss_scaling != "dynamic":
        offered["loss_scaling=dynamic"] = "dynamic loss scaling (loss_scaling=dynamic)"
    if settings.clip != "none":
        offered["clip=none"] = "no clipping (clip=none)"
    if settings.schedule != "constant":
        counts = "updates" if settings.schedule_counts == "microbatches" else "microbatches"
        offered[f"schedule_counts={counts}"] = f"schedule_counts={counts}"
    return offered


def label(name: str) -> str:
    """What a setting is called on the page."""
    return LABELS.get(name, name)
