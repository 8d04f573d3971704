"""A node whose clients are limited for a test, and whose memory of what they used is short."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from bifrost.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    QuotaEntityPart,
    QuotaOperation,
)
from bifrost.testing import Cluster
from tests.integration.wire import Wire

KILOBYTE = 1024
WINDOW_S = 2
"""Two samples of a second: what a client may use at once is little, and tests are short."""
_names = itertools.count()

Limit = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "quota.window.num": WINDOW_S, "quota.window.size.seconds": 1,
        "controller.quota.window.num": WINDOW_S, "controller.quota.window.size.seconds": 1,
    }  # fmt: skip
    with Cluster(**settings) as running:
        yield running


def set_limits(wire: Wire, names: dict[str, str | None], **limits: float | None) -> None:
    entity = [QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in names.items()]
    ops = [QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()]
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasEntry(entity=entity, ops=ops)], validate_only=False)
    (result,) = wire.call(1, request).entries
    assert result.error_code == 0, result.error_message


@pytest.fixture
def limit(wire: Wire) -> Iterator[Limit]:
    """Limits a client id that nobody else has, or what is named, for as long as the test lasts."""
    undo = []

    def set_(names: dict[str, str | None] | None = None, **limits: float) -> str:
        client_id = f"limited-{next(_names)}"
        found = {"client-id": client_id} if names is None else names
        undo.append((found, dict.fromkeys(limits)))
        set_limits(wire, found, **limits)
        return client_id

    yield set_
    for names, limits in undo:
        set_limits(wire, names, **limits)
