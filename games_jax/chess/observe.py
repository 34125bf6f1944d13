"""What a player sees: piece planes, and planes for what no piece shows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.chess import rules
from games_jax.chess.board import FULL, WORDS, Pieces, unpack

PIECE_PLANES = 12
FACT_PLANES = 11
# The clock's planes light up one after the other, at these shares of the limit.
_CLOCK_SHARES = (0.25, 0.5, 0.75, 0.875)


def num_planes(history: int) -> int:
    """Planes of an observation with so many positions."""
    return PIECE_PLANES * history + FACT_PLANES


def observe(state: rules.State, player: jax.Array, limits: rules.Limits) -> jax.Array:
    """Bool `[8, 8, C]`; see `Chess.observe`."""
    mine = (state.ply & np.uint32(1)).astype(jnp.int32) == player
    boards = _piece_planes(state.pieces, mine)
    # Positions before were seen by the one player and the other in turn.
    past = state.past if not isinstance(state.past, tuple) else ()
    for age, words in enumerate(past, start=1):
        pieces = Pieces(*((words[2 * i], words[2 * i + 1]) for i in range(4)))
        boards += _piece_planes(pieces, mine ^ (age % 2 == 1))
    boards += _fact_planes(state, player, mine, limits)
    return unpack(bits.compute_once(*boards)).reshape(8, 8, -1)


def _piece_planes(pieces: Pieces, mine: jax.Array) -> list[Board]:
    turned = pieces.turned()
    seen = Pieces(*(bits.where(mine, here, there) for here, there in zip(pieces, turned, strict=True)))
    kinds = seen.kinds()
    return [bits.both(kind, seen.own) for kind in kinds] + [bits.without(kind, seen.own) for kind in kinds]


def _fact_planes(state: rules.State, player: jax.Array, mine: jax.Array, limits: rules.Limits) -> list[Board]:
    passed = rules.passed(state.flags).astype(jnp.int32) - 1
    square = jnp.where(passed < 0, -1, passed + jnp.where(mine, 16, 40))
    rights = rules.rights(state.flags)
    rights = jnp.where(mine, rights, ((rights & np.uint32(3)) << 2) | (rights >> 2))
    quiet = rules.clock(state.flags)
    facts = [(rights >> i) & np.uint32(1) != 0 for i in range(4)]
    facts += [jnp.asarray(player) == 1, _occurred_before(state)]
    facts += [quiet >= int(share * limits.clock) for share in _CLOCK_SHARES]
    return [bits.bit(square, words=WORDS)] + [bits.where(fact, FULL, bits.zeros(WORDS)) for fact in facts]


def _occurred_before(state: rules.State) -> jax.Array:
    if isinstance(state.seen, tuple):
        return jnp.zeros((), bool)
    same = (state.seen == rules.key(state)[:, None]).all(axis=0)
    return same.any()
