r"""Templates such as `'%t %p %o %k %s\n'`: the fields that kcat's users know, and escapes.

%s value    %S its length    %R its length as four bytes    %k key    %K its length (-1: null)
%t topic    %p partition     %o offset                      %h headers as name=value,name=value
%T timestamp in milliseconds    %d timestamp as a date      %% a percent sign
"""

from __future__ import annotations

from collections.abc import Callable

from bifrost.cli.data.formats import Format, Part, Received
from bifrost.cli.data.lines import LineError, unescape
from bifrost.cli.data.times import show

_Piece = Callable[[Received], bytes]


class TemplateError(ValueError):
    """A template with a field that nobody knows."""


def template_format(template: str, *, key: Part, value: Part) -> Format:
    """Compiles the template; nothing is added to it, a newline neither."""
    fields: dict[str, _Piece] = {
        "s": lambda message: value(message.value),
        "S": lambda message: b"%d" % _length(message.value),
        "R": lambda message: _length(message.value).to_bytes(4, "big", signed=True),
        "k": lambda message: key(message.key),
        "K": lambda message: b"%d" % _length(message.key),
        "t": lambda message: message.topic.encode(),
        "p": lambda message: b"%d" % message.partition,
        "o": lambda message: b"%d" % message.offset,
        "h": lambda message: b",".join(name.encode() + b"=" + value(content) for name, content in message.headers),
        "T": lambda message: b"%d" % message.timestamp_ms,
        "d": lambda message: show(message.timestamp_ms).encode(),
    }
    pieces = _compile(template, fields)
    return lambda message: b"".join([piece if isinstance(piece, bytes) else piece(message) for piece in pieces])


def _compile(template: str, fields: dict[str, _Piece]) -> list[bytes | _Piece]:
    pieces: list[bytes | _Piece] = []
    first, *rest = template.split("%")
    texts = [first]
    skip = False
    for index, text in enumerate(rest):
        if skip:  # this one started with the second of two percent signs
            texts[-1] += text
            skip = False
        elif text == "" and index + 1 < len(rest):
            texts[-1] += "%"
            skip = True
        elif text[:1] in fields and text:
            pieces += [_literal(texts.pop()), fields[text[0]]]
            texts.append(text[1:])
        else:
            raise TemplateError(f"a template has no field %{text[:1]}; it has %{' %'.join(fields)} and %%")
    return [*pieces, _literal(texts.pop())]


def _literal(text: str) -> bytes:
    try:
        return unescape(text)
    except LineError as error:
        raise TemplateError(str(error)) from None


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
