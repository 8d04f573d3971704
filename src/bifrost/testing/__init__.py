"""A real broker inside your tests.

    from bifrost.testing import Cluster

    with Cluster() as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})

pytest finds the fixtures by itself (`bifrost.testing.plugin`):

    def test_greeting(bifrost_topic):
        bifrost_topic.produce(["hello", ("key", {"n": 1})])
        bifrost_topic.expect(["hello", ("key", {"n": 1})])

Names are loaded when they are first used: every run of pytest imports this package, also one that needs no broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bifrost.testing.cluster import Cluster as Cluster
    from bifrost.testing.foreign import ForeignCluster as ForeignCluster
    from bifrost.testing.record import ANY as ANY
    from bifrost.testing.record import Record as Record
    from bifrost.testing.topic import Topic as Topic
    from bifrost.testing.topic import expect_records as expect_records
    from bifrost.testing.topic import produce as produce
    from bifrost.testing.topic import read as read

_HOMES = {
    "ANY": "record",
    "Cluster": "cluster",
    "ForeignCluster": "foreign",
    "Record": "record",
    "Topic": "topic",
    "expect_records": "topic",
    "produce": "topic",
    "read": "topic",
}
"""The module that each public name lives in."""

__all__ = [*_HOMES]  # noqa: PLE0604  # names of a table are strings


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
