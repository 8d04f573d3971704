"""Records that prove who wrote them: every byte of a value follows from its name, so that a wrong one is noticed."""

from __future__ import annotations

from tests.sim.history import GARBAGE, Value


def encode_value(value: Value, size: int) -> bytes:
    """At least `size` bytes."""
    name = f"{value}|".encode()
    return name * (max(size - 1, 0) // len(name) + 1)


def decode_value(data: bytes | None) -> Value:
    """Who wrote it, or GARBAGE if it is not whole."""
    if data is None:
        return GARBAGE
    try:
        producer, line, number = data[: data.index(b"|")].decode().rsplit(".", 2)
        value = Value(producer, int(line), int(number))
    except ValueError:
        return GARBAGE
    return value if encode_value(value, len(data)) == data else GARBAGE
