"""Admin clients that ask nodes for log directories, elections and features, and, where a library can, more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from tests.compat.clients.base import ClientError
from tests.compat.clients.driven import Java
from tests.compat.clients.kafka_python import KafkaAdminClient, KafkaError, error_code, for_code


class NodeAdmin(ABC):
    """What an administrator asks about nodes. A refusal is a `ClientError`."""

    name: ClassVar[str]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def log_dirs(self, broker: int) -> dict[str, dict[str, int]]:
        """The broker's directories, and how large each log in them is."""

    @abstractmethod
    def move_log(self, broker: int, topic: str, path: str) -> None:
        """The topic's partition 0 is to be in this directory."""

    @abstractmethod
    def elect(self, topic: str) -> None:
        """The preferred leader of partition 0."""

    @abstractmethod
    def features(self) -> dict[str, int]:
        """The levels that are set."""

    @abstractmethod
    def try_feature(self, feature: str, level: int, kind: str) -> None:
        """Whether the level could change so."""


class KafkaPythonNodes(NodeAdmin):
    name = "kafka-python"

    def _ask(self, call: Callable[[KafkaAdminClient], Any]) -> Any:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return call(admin)
        except KafkaError as error:
            raise ClientError(error_code(error), repr(error)) from error
        finally:
            admin.close()

    def log_dirs(self, broker: int) -> dict[str, dict[str, int]]:
        (answer,) = self._ask(lambda admin: admin.describe_log_dirs(brokers=[broker]))
        assert answer["broker"] == broker
        return {
            directory["log_dir"]: {
                f"{topic['name']}-{each['partition_index']}": each["partition_size"]
                for topic in directory["topics"]
                for each in topic["partitions"]
            }
            for directory in answer["log_dirs"]
        }

    def move_log(self, broker: int, topic: str, path: str) -> None:
        (refused,) = self._ask(lambda admin: admin.alter_replica_log_dirs({(topic, 0, broker): path})).values()
        if refused is not for_code(0):
            raise ClientError(error_code(refused()), repr(refused))

    def elect(self, topic: str) -> None:
        """This library takes "not needed" for success, and tells it in its answer only."""
        answer = self._ask(lambda admin: admin.elect_leaders(0, {topic: [0]}))
        ((partition,),) = [one.partition_result for one in answer.replica_election_results]
        if partition.error_code:
            raise ClientError(partition.error_code, str(partition.error_message))

    def features(self) -> dict[str, int]:
        found = self._ask(lambda admin: admin.describe_features())
        return {name: one["finalized"][1] for name, one in found.items() if "finalized" in one}

    def try_feature(self, feature: str, level: int, kind: str) -> None:
        self._ask(lambda admin: admin.update_features({feature: (kind, level)}, validate_only=True))


class JavaNodes(NodeAdmin):
    name = "java"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._driver = Java(bootstrap)

    def log_dirs(self, broker: int) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = self._driver.call("log_dirs", broker=broker)
        return found

    def move_log(self, broker: int, topic: str, path: str) -> None:
        self._driver.call("move_log", broker=broker, topic=topic, partition=0, path=path)

    def elect(self, topic: str) -> None:
        self._driver.call("elect", topic=topic, partition=0)

    def features(self) -> dict[str, int]:
        found: dict[str, int] = self._driver.call("features")
        return found

    def try_feature(self, feature: str, level: int, kind: str) -> None:
        self._driver.call("try_feature", feature=feature, level=level, type=kind)

    def producers(self, topic: str) -> list[list[int]]:
        """Epoch and last sequence of those that write to partition 0."""
        found: list[list[int]] = self._driver.call("producers", topic=topic, partition=0)
        return found

    def set_quota(self, client: str, key: str, rate: float | None) -> None:
        self._driver.call("set_quota", client=client, key=key, rate=rate)

    def quotas(self, client: str) -> dict[str, float]:
        found: dict[str, float] = self._driver.call("quotas", client=client)
        return found


NODE_ADMINS: dict[str, type[NodeAdmin]] = {each.name: each for each in (KafkaPythonNodes, JavaNodes)}
