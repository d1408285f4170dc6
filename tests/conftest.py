"""Every test runs under the strictest JAX: no silent promotion of dtypes or ranks. Warnings are errors (pyproject)."""

import hypothesis
import jax

import lab.devices  # noqa: F401  # asks for the simulated devices before any test can start JAX

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")
