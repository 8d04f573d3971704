"""A plain HTTP client: requests that never raise for a status, and streams of events that are read as they come."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

from bifrost.testing.embedded import EmbeddedNode

TIMEOUT_S = 30


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message  # names in any case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def url_of(node: EmbeddedNode) -> str:
    assert node._node is not None
    url = node._node.http_url
    assert url is not None, "it speaks no HTTP"
    return url


def ask(
    node: EmbeddedNode | str, path: str, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None
) -> Answer:
    url = (node if isinstance(node, str) else url_of(node)) + path
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read())


@dataclass
class Told:
    """One event of a stream."""

    kind: str
    data: Any
    id: str | None


@dataclass
class Stream:
    """Reads events in a thread of its own until it is closed, or the node is gone."""

    node: EmbeddedNode
    after: str | None = None
    events: list[Told] = field(default_factory=list)
    comments: int = 0
    has_ended: bool = False

    def __enter__(self) -> Self:
        where = urlsplit(url_of(self.node))
        self._connection = HTTPConnection(where.hostname or "", where.port, timeout=TIMEOUT_S)
        self._connection.request("GET", "/v1/events", headers={"Last-Event-ID": self.after} if self.after else {})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        assert self._answer.getheader("content-type", "").startswith("text/event-stream")
        self._socket = self._connection.sock
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            try:
                self._socket.shutdown(2)
            except OSError:
                pass  # the node was first
        self._thread.join(TIMEOUT_S)
        self._answer.close()
        self._connection.close()

    @property
    def last_id(self) -> str:
        return next(event.id for event in reversed(self.events) if event.id is not None)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            while line := self._answer.readline():
                text = line.decode().rstrip("\n")
                if text.startswith(":"):
                    self.comments += 1
                elif text:
                    name, _, value = text.partition(": ")
                    fields[name] = value
                else:
                    if "event" in fields:
                        self.events.append(Told(fields["event"], json.loads(fields["data"]), fields.get("id")))
                    fields = {}
        except (OSError, ValueError, AttributeError):
            pass  # it was closed from one side or the other
        self.has_ended = True
