"""Compiled programs kept from one start to the next, in the user's cache folder.

JAX writes and reads them; here it is told where, and the folder is kept small. Nothing depends on it: it may be
unwritable, full, or deleted at any time, and a program that is not there is compiled.
"""

import os
import sys
import warnings
from pathlib import Path

MOST_BYTES = 256 * 2**20
"""The folder is trimmed when it holds more; a program takes from 0.02 to 1 MiB."""

UNCACHED = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
"""In the environment of a process that compiles everything anew: seconds to compile are those of an unknown program."""

_trimmed: Path | None = None


def folder() -> Path:
    """Where the platform keeps what may be lost: the user's cache folder, and ours in it."""
    home = Path.home()
    if sys.platform == "win32":
        place = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        place = home / "Library" / "Caches"
    else:
        place = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(place) / "training-lab" / "compiled"


def remember():
    """Have JAX keep what it compiles from now on. Called before JAX is imported; a folder the user chose stands."""
    global _trimmed
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or "jax" in sys.modules:
        return
    try:
        place = folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(place, os.W_OK | os.X_OK):
            return
    except (OSError, RuntimeError):
        return
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(place),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    # A folder that went away, or half a file that another process is still writing, is no news to anybody.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    _trimmed = place
    trim()


def do_without():
    """Have JAX compile everything anew, also where the user has a cache. Called before JAX is imported."""
    if "jax" not in sys.modules:
        os.environ |= UNCACHED


def trim():
    """Delete the programs that were longest unused, down to three quarters of what the folder may hold.

    Only the folder that `remember` chose. Several processes may do it at once.
    """
    if _trimmed is None:
        return
    files = []
    try:
        for entry in os.scandir(_trimmed):
            about = entry.stat()
            files.append((max(about.st_atime, about.st_mtime), about.st_size, entry.path))
    except OSError:
        return
    too_much = sum(size for _, size, _ in files) - MOST_BYTES
    if too_much <= 0:
        return
    too_much += MOST_BYTES // 4
    for _, size, path in sorted(files):
        if too_much <= 0:
            return
        try:
            os.unlink(path)
        except OSError:
            continue
        too_much -= size
