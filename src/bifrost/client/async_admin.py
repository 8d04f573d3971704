"""`bifrost.AsyncAdmin`: the calls of `Admin`, to be awaited.

Each call runs `Admin`'s own in a worker thread: calls are rare and wait for the network, so a second implementation
would buy nothing. A call that is cancelled is no longer waited for, but may still be carried out by the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from bifrost.client.admin import Admin
from bifrost.client.admin_session import TIMEOUT_S
from bifrost.client.descriptions import (
    ClusterDescription,
    ConfigValue,
    Deletion,
    GroupDescription,
    GroupListing,
    Health,
    Offsets,
    ResetPlan,
    TopicDescription,
    TopicListing,
)
from bifrost.client.record_admin import Before
from bifrost.client.reset import Target


class AsyncAdmin:
    """`Admin` for asyncio: same names, same arguments, same results.

    async with AsyncAdmin("localhost:9092") as admin:
        await admin.create_topic("deliveries", partitions=2)
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        cluster: str | None = None,
        timeout_s: float = TIMEOUT_S,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._admin = Admin(bootstrap, cluster=cluster, timeout_s=timeout_s, config=config)

    @property
    def bootstrap(self) -> str:
        """The address that the cluster is looked for at."""
        return self._admin.bootstrap

    async def close(self) -> None:
        """Drop the connections. A closed admin cannot be used again."""
        await asyncio.to_thread(self._admin.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._admin!r}"

    async def cluster(self) -> ClusterDescription:
        """The brokers that are up."""
        return await asyncio.to_thread(self._admin.cluster)

    async def health(self) -> Health:
        """What is missing: partitions without a leader or with too few replicas, brokers that are not there."""
        return await asyncio.to_thread(self._admin.health)

    async def topics(self, *, internal: bool = False) -> list[TopicListing]:
        """All topics by name; those that belong to the brokers only on request."""
        return await asyncio.to_thread(self._admin.topics, internal=internal)

    async def topic(self, name: str) -> TopicDescription:
        """A topic with its partitions: leader, replicas, and the offsets they hold."""
        return await asyncio.to_thread(self._admin.topic, name)

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        exist_ok: bool = False,
    ) -> bool:
        """Create a topic and wait until it can be used; returns whether it was created."""
        return await asyncio.to_thread(
            self._admin.create_topic, name, partitions, replication_factor, config, exist_ok=exist_ok
        )

    async def delete_topic(self, name: str, *, missing_ok: bool = False) -> bool:
        """Delete a topic with everything in it. Returns whether it was there."""
        return await asyncio.to_thread(self._admin.delete_topic, name, missing_ok=missing_ok)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        await asyncio.to_thread(self._admin.add_partitions, name, total)

    async def offsets(self, topic: str) -> dict[int, Offsets]:
        """The first and the next offset of every partition that has a leader."""
        return await asyncio.to_thread(self._admin.offsets, topic)

    async def offsets_at(self, topic: str, moment: datetime | int) -> dict[int, int]:
        """For every partition with a leader, where messages of that time or later begin; the end if there are none."""
        return await asyncio.to_thread(self._admin.offsets_at, topic, moment)

    async def plan_delete_records(
        self, topic: str, before: Before = None, *, partitions: Iterable[int] | None = None
    ) -> tuple[Deletion, ...]:
        """What `delete_records` would delete, for each partition; changes nothing."""
        return await asyncio.to_thread(self._admin.plan_delete_records, topic, before, partitions=partitions)

    async def delete_records(
        self, topic: str, before: Before = None, *, partitions: Iterable[int] | None = None
    ) -> tuple[Deletion, ...]:
        """Delete the messages before an offset or a time, or all of them. `Admin.delete_records` explains more."""
        return await asyncio.to_thread(self._admin.delete_records, topic, before, partitions=partitions)

    async def configs(self, *, topic: str | None = None, broker: int | None = None) -> dict[str, ConfigValue]:
        """Every setting of a topic or a broker, by name."""
        return await asyncio.to_thread(self._admin.configs, topic=topic, broker=broker)

    async def set_configs(
        self, settings: Mapping[str, object], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Change some settings and leave the others as they are."""
        await asyncio.to_thread(self._admin.set_configs, settings, topic=topic, broker=broker)

    async def append_configs(
        self, settings: Mapping[str, object], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Add items to settings that are lists."""
        await asyncio.to_thread(self._admin.append_configs, settings, topic=topic, broker=broker)

    async def subtract_configs(
        self, settings: Mapping[str, object], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Take items away from settings that are lists."""
        await asyncio.to_thread(self._admin.subtract_configs, settings, topic=topic, broker=broker)

    async def unset_configs(
        self, names: str | Iterable[str], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Give some settings back their defaults."""
        await asyncio.to_thread(self._admin.unset_configs, names, topic=topic, broker=broker)

    async def groups(self) -> list[GroupListing]:
        """All consumer groups by name."""
        return await asyncio.to_thread(self._admin.groups)

    async def group(self, name: str) -> GroupDescription:
        """A group with its members, what they own, and how far it has come."""
        return await asyncio.to_thread(self._admin.group, name)

    async def plan_reset(
        self,
        group: str,
        topics: str | Iterable[str] | Mapping[str, Iterable[int] | None] | None = None,
        *,
        to: Target | None = None,
        shift_by: int | None = None,
    ) -> ResetPlan:
        """What a reset would change; changes nothing. `Admin.plan_reset` explains the arguments."""
        return await asyncio.to_thread(self._admin.plan_reset, group, topics, to=to, shift_by=shift_by)

    async def reset_offsets(self, plan: ResetPlan) -> None:
        """Do what `plan_reset` planned."""
        await asyncio.to_thread(self._admin.reset_offsets, plan)

    async def delete_group(self, name: str, *, missing_ok: bool = False) -> bool:
        """Delete a group with the offsets it has committed. Returns whether it was there."""
        return await asyncio.to_thread(self._admin.delete_group, name, missing_ok=missing_ok)
