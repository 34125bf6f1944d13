"""For all tests: programs are compiled quickly and kept in `.jax_cache/`, unless told otherwise."""

import os
from pathlib import Path

# Before JAX is imported; processes that tests start inherit it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
# Compiling is most of the work: without optimisation it takes a third less time, and the programs are small.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
