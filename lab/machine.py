"""The machine that numbers were measured on."""

import os
import platform
from typing import Any

import jax


def machine() -> dict[str, Any]:
    """What a measured time depends on besides the program."""
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
