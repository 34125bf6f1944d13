"""Cubes in text: turns in Singmaster's notation, and facelets."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from games_jax.cube import geometry

_SUFFIXES = {1: "", 2: "2", 3: "'"}
_COUNTS = {"": 1, "1": 1, "2": 2, "2'": 2, "3": 3, "'": 3}

Turn = tuple[str, int]


def turn_name(face: str, count: int) -> str:
    """Such as R for one clockwise quarter turn, R2 for two and R' for three."""
    return face + _SUFFIXES[count]


def parse_turn(text: str, turns: Sequence[Turn]) -> int:
    """The number of a turn among `turns`.

    Raises:
        ValueError: it is not among them.
    """
    turn = _read(text)
    if turn not in turns:
        raise ValueError(
            f"{text!r} is not a move; give one of {', '.join(turn_name(*turn) for turn in turns)}."
        )
    return turns.index(turn)


def parse_scramble(text: str, size: int) -> list[Turn]:
    """Turns separated by spaces; brackets and moves of the whole cube are not known.

    Raises:
        ValueError: a word that is no turn, or a turn that the cube of this size does without.
    """
    faces = geometry.FACES if size == 3 else geometry.FACES[:3]
    found = []
    for number, word in enumerate(text.split(), start=1):
        turn = _read(word)
        if turn is None or turn[0] not in faces:
            why = "" if turn is None else " The corner DBL stays where it is."
            raise ValueError(
                f"at move {number} of {text!r}: {word!r} is not a turn; give a face, one of "
                f"{' '.join(faces)}, alone or with 2 or ' after it.{why}"
            )
        found.append(turn)
    return found


def _read(word: str) -> Turn | None:
    match = re.fullmatch(r"([URFDLB])(1|2'?|3|')?", word.strip().replace("’", "'"))
    return (match[1], _COUNTS[match[2] or ""]) if match else None


def is_facelets(text: str, size: int) -> bool:
    """Whether the text looks like facelets rather than turns: a long word of letters."""
    first = text.split()[0] if text.strip() else ""
    return len(first) >= 3 * size**2 and first.isalpha()


def parse_facelets(text: str, size: int) -> tuple[np.ndarray, int]:
    """Reads facelets and the number of moves made, which may be left out.

    Returns:
        Int `[8]` or `[20]`: `geometry.code` of each cubie's first sticker, corners first; and the moves made.

    Raises:
        ValueError: the sentence says what is impossible about the cube.
    """
    word, *rest = text.split()
    word, length = word.upper(), 6 * size**2
    if (
        len(word) != length
        or set(word) - set(geometry.FACES)
        or len(rest) > 1
        or not "".join(rest or "0").isdigit()
    ):
        raise ValueError(
            f"{text!r} is not a cube of size {size}; give {length} facelets of the letters U R F D L B, face "
            f"by face in that order, and after them the moves made if there are any."
        )
    if size == 3:
        centres = word[4::9]
        if centres != geometry.FACES:
            raise ValueError(
                f"{text!r} has the centres {centres}; turn the whole cube until they are URFDLB."
            )
    corners, twists = _find(text, word, size, geometry.CORNERS)
    codes = [geometry.kind(geometry.CORNERS).codes[corners, twists]]
    if size == 2 and (corners[geometry.FIXED], twists[geometry.FIXED]) != (geometry.FIXED, 0):
        raise ValueError(
            f"{text!r} has not the corner DBL in its place; turn the whole cube until it is there."
        )
    if sum(twists) % 3:
        raise ValueError(f"{text!r} has one twisted corner too many: turning faces cannot solve it.")
    if size == 3:
        edges, flips = _find(text, word, size, geometry.EDGES)
        codes.append(geometry.kind(geometry.EDGES).codes[edges, flips])
        if sum(flips) % 2:
            raise ValueError(f"{text!r} has one flipped edge too many: turning faces cannot solve it.")
        if _is_odd(corners) != _is_odd(edges):
            raise ValueError(f"{text!r} has two cubies exchanged: turning faces cannot solve it.")
    return np.concatenate(codes), int(rest[0]) if rest else 0


def _find(text: str, word: str, size: int, names: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """For each cubie its place, and which facelet of the place shows its first sticker."""
    places, facelets = [-1] * len(names), [0] * len(names)
    for place, numbers in enumerate(geometry.facelets(size, names)):
        shown = "".join(word[number] for number in numbers)
        for facelet in range(len(shown)):
            name = shown[facelet:] + shown[:facelet]
            if name in names:
                cubie = names.index(name)
                if places[cubie] >= 0:
                    raise ValueError(
                        f"{text!r} shows the cubie {name} twice, at {names[places[cubie]]} and at "
                        f"{names[place]}."
                    )
                places[cubie], facelets[cubie] = place, facelet
                break
        else:
            raise ValueError(f"{text!r} shows {shown} at {names[place]}; no cubie has these colours so.")
    return places, facelets


def _is_odd(order: Sequence[int]) -> bool:
    return bool(sum(a > b for i, a in enumerate(order) for b in order[i + 1 :]) % 2)
