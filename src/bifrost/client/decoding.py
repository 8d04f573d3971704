"""From fetched bytes to keys and values, and what becomes of a message that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from bifrost.client.errors import DeserializationError, SerializationError
from bifrost.client.message import Message
from bifrost.client.serialization import Format, deserializer

OnBadMessage = Callable[[Message[bytes | None, bytes | None], SerializationError], object]


AHEAD: Final = 50
"""How many messages are decoded at a time: enough to make it cheap, few enough to throw away."""


class Decoder:
    """Knows what keys and values are."""

    def __init__(
        self,
        key: Format | Callable[[bytes], Any],
        value: Format | Callable[[bytes], Any],
        on_bad_message: OnBadMessage | None,
    ) -> None:
        self._key = deserializer(key, "key")
        self._value = deserializer(value, "value")
        self._plain = key == value == "bytes"
        self._on_bad_message = on_bad_message

    def portion(self, want: int) -> int | None:
        """How many messages to decode at a time if so many are wanted; None: all there are."""
        return None if self._plain else max(want, AHEAD)

    def decode(self, fetched: Iterable[Any]) -> list[Message[Any, Any]]:
        """As many as can be read, from the first on. Hot path."""
        if self._plain:
            return [Message(raw, raw.key(), raw.value()) for raw in fetched]
        key, value = self._key, self._value
        messages: list[Message[Any, Any]] = []
        try:
            messages.extend(Message(raw, key(raw.key()), value(raw.value())) for raw in fetched)
        except SerializationError:
            pass  # raised by `settle_bad`, when it is the next one
        return messages

    def settle_bad(self, raw: Any) -> None:
        """Hand a message that cannot be read to the application, or raise if it does not want it."""
        message: Message[bytes | None, bytes | None] = Message(raw, raw.key(), raw.value())
        error = self._error(message)
        if self._on_bad_message is None:
            raise error
        self._on_bad_message(message, error)

    def _error(self, message: Message[bytes | None, bytes | None]) -> DeserializationError:
        place = f"{message.topic}-{message.partition} at offset {message.offset}"
        past = f"seek(offset={message.offset + 1}, partitions=({message.topic!r}, {message.partition}))"
        hint = f"To go on after it: {past}; on_bad_message= takes such messages without stopping."
        try:
            self._key(message.key)
            self._value(message.value)
        except SerializationError as cause:
            error = DeserializationError(f"{place}: {cause.problem}", hint, message=message)
            error.__cause__ = cause.__cause__
            return error
        return DeserializationError(f"{place}: it could not be read at first", "Read it again.", message=message)
