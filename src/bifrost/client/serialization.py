"""Keys and values as bytes: by name, or by a function of one's own.

| name      | Python                                                    | bytes                         |
|-----------|-----------------------------------------------------------|-------------------------------|
| `bytes`   | bytes; when sending, a str is taken too, as UTF-8         | as they are                   |
| `str`     | str                                                       | UTF-8                         |
| `json`    | what msgspec can encode: dicts, dataclasses, datetimes ... | JSON without spaces, UTF-8    |
| `msgpack` | the same                                                  | MessagePack                   |

`None` is `None` on both sides: no key, or a value that deletes its key from a compacted topic. Functions never see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from bifrost.client.errors import ConfigError, SerializationError, nearest

Format = Literal["bytes", "str", "json", "msgpack"]
FORMATS: tuple[Format, ...] = ("bytes", "str", "json", "msgpack")

Serializer = Callable[[Any], bytes | None]
"""Makes bytes of a value."""
Deserializer = Callable[[bytes | None], Any]
"""Makes a value of bytes."""

Part = Literal["key", "value"]


def serializer(spec: Format | Callable[[Any], bytes | None], part: Part = "value") -> Serializer:
    """The function behind a name; whatever goes wrong in it comes out as a SerializationError."""
    if spec == "bytes":
        return _key_bytes if part == "key" else _value_bytes
    encode = spec if callable(spec) else _encoder(spec, part)
    name = _name(spec)

    def serialize(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            data = encode(value)
        except Exception as error:
            problem = f"a {part} of type {type(value).__name__} cannot be sent as {name}: {error}"
            raise SerializationError(problem, _advice(value, part)) from error
        if data is not None and type(data) is not bytes:
            problem = f"the {part} serializer {name} returned {type(data).__name__}"
            raise SerializationError(problem, "It must return bytes or None.")
        return data

    return serialize


def deserializer(spec: Format | Callable[[bytes], Any], part: Part = "value") -> Deserializer:
    """The function behind a name; whatever goes wrong in it comes out as a SerializationError."""
    if spec == "bytes":
        return _unchanged
    decode = spec if callable(spec) else _decoder(spec, part)
    name = _name(spec)

    def deserialize(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return decode(data)
        except Exception as error:
            problem = f"a {part} cannot be read as {name}: {error}"
            raise SerializationError(problem, f'Read it with {part}="bytes" to see what it is.') from error

    return deserialize


def _encoder(name: str, part: Part) -> Callable[[Any], bytes]:
    import msgspec

    if name == "str":
        return str.encode
    if name == "json":
        return msgspec.json.Encoder().encode
    if name == "msgpack":
        return msgspec.msgpack.Encoder().encode
    raise _unknown(name, part)


def _decoder(name: str, part: Part) -> Callable[[bytes], Any]:
    import msgspec

    if name == "str":
        return bytes.decode
    if name == "json":
        return msgspec.json.Decoder().decode
    if name == "msgpack":
        return msgspec.msgpack.Decoder().decode
    raise _unknown(name, part)


def _unknown(name: object, part: Part) -> ConfigError:
    hint = nearest(str(name), FORMATS) or f"There are {', '.join(FORMATS)}, and functions."
    return ConfigError(f"{part}={name!r} is no format", hint)


def _name(spec: object) -> str:
    return spec if isinstance(spec, str) else getattr(spec, "__name__", type(spec).__name__)


def _value_bytes(value: Any) -> bytes | None:
    return value if type(value) is bytes or value is None else _as_bytes(value, "value")


def _key_bytes(value: Any) -> bytes | None:
    return value if type(value) is bytes or value is None else _as_bytes(value, "key")


def _as_bytes(value: Any, part: Part) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationError(f"a {part} of type {type(value).__name__} is not bytes", _advice(value, part))


def _advice(value: Any, part: Part) -> str:
    if isinstance(value, str):
        return f'For text, say {part}="str".'
    return f'Say how it becomes bytes: {part}="json", "msgpack", or a function.'


def _unchanged(data: bytes | None) -> bytes | None:
    return data
