"""The cluster as the driver and the tasks reach it: one wire client for each process and address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bifrost.spark.failures import first_contact, told_of
from bifrost.spark.offsets import Offsets
from bifrost.spark.read_options import ReadOptions
from bifrost.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from bifrost.client.wire import OffsetAndTimestamp, WireClient


class WireBrokers:
    """The questions that a `Locator` asks."""

    def __init__(self, client: WireClient) -> None:
        self._client = client

    def topics(self) -> list[str]:
        return self._client.topics()

    def partitions(self, topic: str) -> list[int]:
        return self._client.partitions(topic)

    def list_offsets(
        self, questions: Mapping[tuple[str, int], int], isolation: str
    ) -> Mapping[tuple[str, int], OffsetAndTimestamp | None]:
        return self._client.list_offsets(questions, isolation)


def commit_offsets(options: ReadOptions, group: str, offsets: Offsets) -> None:
    """Tells the group how far the query is; only for others to see, the query itself never asks."""
    from bifrost.client.wire import shared_client

    client = shared_client(options.bootstrap, options.settings)
    client.commit_offsets(group, {(each.topic, each.partition): offset for each, offset in offsets.items()})


def open_brokers(options: ReadOptions) -> WireBrokers:
    """Kept by the process: Spark reuses its driver-side workers from query to query."""
    from bifrost.client.wire import shared_client

    client = shared_client(options.bootstrap, options.settings)
    if options.json is not None and options.json.dead_letter_topic is not None:
        with told_of("deadLetterTopic"), first_contact():
            client.partitions(options.json.dead_letter_topic)
    return WireBrokers(client)


_targets: set[tuple[str, str]] = set()


def check_target(options: WriteOptions) -> None:
    """On the driver, so that a topic that does not exist is told before any task has begun.

    A stream asks for a writer twice for every batch, of a process that stays: once is enough.
    """
    if options.topic is None or (options.bootstrap, options.topic) in _targets:
        return
    from bifrost.client.wire import shared_client

    with told_of("topic"), first_contact():
        shared_client(options.bootstrap, options.settings).partitions(options.topic)
    _targets.add((options.bootstrap, options.topic))
