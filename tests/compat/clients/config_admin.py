"""Configs seen and changed from outside, through the admin clients of three libraries behind one face."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Literal, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient as RdAdmin
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry
from confluent_kafka.admin import ConfigResource as RdResource
from kafka import KafkaAdminClient  # type: ignore[import-untyped]
from kafka.admin import ConfigResource  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]

from tests.compat.clients.base import TIMEOUT_S, ClientError, error_code
from tests.compat.clients.driven import Java

Kind = Literal["topic", "broker"]
Op = Literal["set", "delete", "append", "subtract"]
Change = tuple[str, Op, str | None]
T = TypeVar("T")


class Source(IntEnum):
    """Under the names that all clients use."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class Described:
    """One config; synonyms are values with their sources, strongest first."""

    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[tuple[str, str | None, Source], ...]


class ConfigAdmin(ABC):
    """Refusals are `ClientError` with Kafka's code. A broker is named by its id; "" is every broker."""

    name: ClassVar[str]
    lacks: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def alter(self, kind: Kind, name: str, *changes: Change, validate_only: bool = False) -> None: ...

    @abstractmethod
    def replace(self, kind: Kind, name: str, configs: Mapping[str, str]) -> None: ...

    @abstractmethod
    def describe(self, kind: Kind, name: str) -> dict[str, Described]: ...

    @abstractmethod
    def resources(self, kind: Kind) -> set[str]: ...


class ConfluentConfigs(ConfigAdmin):
    name = "confluent"
    lacks = frozenset({"every-broker", "resources"})

    def _ask(self, call: Callable[[RdAdmin], Any]) -> Any:
        admin = RdAdmin({"bootstrap.servers": self.bootstrap})
        try:
            (future,) = call(admin).values()
            return future.result(TIMEOUT_S)
        except KafkaException as error:
            raise ClientError(error.args[0].code(), error.args[0].str()) from error

    def alter(self, kind: Kind, name: str, *changes: Change, validate_only: bool = False) -> None:
        entries = [ConfigEntry(each, value, incremental_operation=_rd_op(op)) for each, op, value in changes]
        resource = RdResource(_rd_kind(kind), name, incremental_configs=entries)
        self._ask(lambda admin: admin.incremental_alter_configs([resource], validate_only=validate_only))

    def replace(self, kind: Kind, name: str, configs: Mapping[str, str]) -> None:
        resource = RdResource(_rd_kind(kind), name, set_config=dict(configs))
        self._ask(lambda admin: admin.alter_configs([resource]))

    def describe(self, kind: Kind, name: str) -> dict[str, Described]:
        found = self._ask(lambda admin: admin.describe_configs([RdResource(_rd_kind(kind), name)]))
        return {
            each: Described(entry.value, Source(entry.source), entry.is_read_only, _rd_synonyms(entry))
            for each, entry in found.items()
        }

    def resources(self, kind: Kind) -> set[str]:
        raise NotImplementedError


def _rd_kind(kind: Kind) -> Any:
    return RdResource.Type[kind.upper()]


def _rd_op(op: Op) -> AlterConfigOpType:
    return AlterConfigOpType[op.upper()]


def _rd_synonyms(entry: Any) -> tuple[tuple[str, str | None, Source], ...]:
    """They come by name, so that of several with one name the last is left."""
    return tuple((each.name, each.value, Source(each.source)) for each in entry.synonyms.values())


class KafkaPythonConfigs(ConfigAdmin):
    name = "kafka-python"
    lacks = frozenset({"every-broker"})

    def _ask(self, call: Callable[[KafkaAdminClient], T]) -> T:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return call(admin)
        except KafkaError as error:
            raise ClientError(error_code(error), repr(error)) from error
        finally:
            admin.close()

    def _alter(self, resource: ConfigResource, **options: Any) -> None:
        answer = self._ask(lambda admin: admin.alter_configs([resource], raise_on_unknown=False, **options))
        ((text,),) = (each.values() for each in answer.values())
        if text != "OK":
            code = re.match(r"\[Error (\d+)]", text)
            raise ClientError(int(code[1]) if code else None, text)

    def alter(self, kind: Kind, name: str, *changes: Change, validate_only: bool = False) -> None:
        resource = ConfigResource(kind, name, {each: (op, value) for each, op, value in changes})
        self._alter(resource, validate_only=validate_only)

    def replace(self, kind: Kind, name: str, configs: Mapping[str, str]) -> None:
        """This client adds what was set before, so that nothing is lost."""
        self._alter(ConfigResource(kind, name, dict(configs)), incremental=False)

    def describe(self, kind: Kind, name: str) -> dict[str, Described]:
        asked = [ConfigResource(kind, name)]
        found = self._ask(lambda admin: admin.describe_configs(asked, include_synonyms=True, config_filter="all"))
        return {
            each: Described(entry["value"], Source[entry["config_source"]], entry["read_only"], _synonyms(entry))
            for each, entry in found[kind][name].items()
        }

    def resources(self, kind: Kind) -> set[str]:
        return set(self._ask(lambda admin: admin.list_config_resources([kind])).get(kind, ()))


def _synonyms(entry: Mapping[str, Any]) -> tuple[tuple[str, str | None, Source], ...]:
    found: Iterable[Mapping[str, Any]] = entry["synonyms"]
    return tuple((each["name"], each["value"], Source[each["source"]]) for each in found)


class JavaConfigs(ConfigAdmin):
    name = "java"
    lacks = frozenset({"replace"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._driver = Java(bootstrap)

    def alter(self, kind: Kind, name: str, *changes: Change, validate_only: bool = False) -> None:
        wanted = [list(each) for each in changes]
        self._driver.call("alter_configs", kind=kind, name=name, changes=wanted, validate_only=validate_only)

    def replace(self, kind: Kind, name: str, configs: Mapping[str, str]) -> None:
        raise NotImplementedError

    def describe(self, kind: Kind, name: str) -> dict[str, Described]:
        found = self._driver.call("describe_config_entries", kind=kind, name=name)
        return {
            each: Described(value, Source[source], read_only, tuple((n, v, Source[s]) for n, v, s in synonyms))
            for each, value, source, read_only, synonyms in found
        }

    def resources(self, kind: Kind) -> set[str]:
        return set(self._driver.call("list_config_resources", kind=kind))


CONFIG_ADMINS: dict[str, type[ConfigAdmin]] = {
    each.name: each for each in (ConfluentConfigs, KafkaPythonConfigs, JavaConfigs)
}
