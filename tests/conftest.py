"""For all tests: compiled programs are kept in `.jax_cache/`, unless the environment names another place."""

import os
from pathlib import Path

# Before JAX is imported; processes that tests start inherit it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
