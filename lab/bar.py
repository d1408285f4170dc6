"""A progress bar on standard error."""

import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.run import Progress


def bar(progress: "Progress"):
    """Draw where the run stands; the last report ends the line."""
    done = progress.step == progress.steps
    text = (
        f"update {progress.step:,}/{progress.steps:,}  loss {progress.loss:.4g}  rate {progress.learning_rate:.3g}  "
        f"{progress.seconds:.1f} s" + ("" if done else f", {progress.remaining:.1f} s left")
    )
    columns = shutil.get_terminal_size().columns
    width = max(0, min(30, columns - len(text) - 4))
    filled = width * progress.step // progress.steps
    drawn = f"[{'#' * filled}{'.' * (width - filled)}] " if width > 4 else ""
    print(
        "\r" + (drawn + text)[: columns - 1].ljust(columns - 1), end="\n" if done else "", file=sys.stderr, flush=True
    )
