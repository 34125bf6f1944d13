"""mctx itself, untyped: its classes are made by a decorator that type checkers cannot read."""

from typing import Any

import mctx as _mctx

__all__ = ["mctx"]

mctx: Any = _mctx
