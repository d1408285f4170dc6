"""Every test runs under the strictest JAX: no silent promotion of dtypes or ranks. Warnings are errors (pyproject)."""

import atexit
import os
import shutil
import tempfile

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one module or process of this test run has compiled, no other compiles again.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="training-lab-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import hypothesis
import jax
import pytest

import lab.devices  # noqa: F401  # asks for the simulated devices before any test can start JAX

pytest_plugins = ["chromium"]

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="module", autouse=True)
def programs_of_one_module():
    """Compiled programs end with the module that needed them: each holds hundreds of memory maps, and those run out."""
    yield
    jax.clear_caches()
