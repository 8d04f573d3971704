"""Ways to spoil bytes. Every one of them is drawn from the generator that is passed in."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

INTERESTING = [-(1 << 31), -(1 << 15), -2, -1, 0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, (1 << 31) - 1]
VARINTS = [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80" * 12, b"\xff" * 5, b"\x80\x00"]


def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to four changes, most of them small."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
        data = rng.choice(_WAYS)(rng, data, others)
    return data


def _flip(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _set(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A byte, or an integer of any width, that is at some limit."""
    width = rng.choice([1, 2, 4, 8])
    if len(data) < width:
        return data
    at = rng.randrange(len(data) - width + 1)
    number = rng.choice(INTERESTING) & ((1 << (8 * width)) - 1)
    return data[:at] + number.to_bytes(width, "big") + data[at + width :]


def _varint(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(VARINTS) + data[at + rng.choice([0, 1]) :]


def _cut(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.choice([1, 2, 4, 8, 30]) :]


def _repeat(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice([1, 4, 20, 200])]
    return data[:start] + piece * rng.choice([2, 3, 50]) + data[start + len(piece) :]


def _insert(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice([1, 2, 4, 16])) + data[at:]


def _splice(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else data
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


_WAYS: list[Callable[[random.Random, bytes, Sequence[bytes]], bytes]] = [
    _flip,
    _flip,
    _set,
    _set,
    _set,
    _varint,
    _cut,
    _remove,
    _repeat,
    _insert,
    _splice,
]


def spoil_frame(rng: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """A frame that is wrong inside, or in its length, or is no frame at all."""
    kind = rng.random()
    if kind < 0.80:  # wrong inside, with a length that is right: gets past the cutting of frames
        body = mutate(rng, frame[4:], [other[4:] for other in others])
        return struct.pack(">i", len(body)) + body
    if kind < 0.88:  # right inside, with a length that lies
        lie = rng.choice([*INTERESTING, len(frame) - 4 + rng.randrange(-20, 20), 100 << 20])
        return struct.pack(">i", max(-(1 << 31), min(lie, (1 << 31) - 1))) + frame[4:]
    if kind < 0.94:  # cut anywhere
        return frame[: rng.randrange(len(frame))]
    return rng.randbytes(rng.randrange(1, 300))
