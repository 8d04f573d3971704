"""The part of `Admin` that reads and changes the settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from bifrost.client.admin_session import only
from bifrost.client.cluster_admin import ClusterAdmin
from bifrost.client.descriptions import ConfigValue
from bifrost.client.errors import ConfigError, InvalidRequestError, UnknownTopicError, nearest
from bifrost.client.options import names_of
from bifrost.client.topic_admin import refusal, setting_text

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigResource

_OF_A_LISTENER = "listener.name."  # what comes after it is anybody's choice
_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
    "STATIC_BROKER_CONFIG": "static",
    "DEFAULT_CONFIG": "default",
    "GROUP_CONFIG": "group",
}


class ConfigAdmin(ClusterAdmin):
    """Settings: of a topic or of a broker."""

    def configs(self, *, topic: str | None = None, broker: int | None = None) -> dict[str, ConfigValue]:
        """Every setting of a topic or a broker, by name.

        >>> admin.configs(topic="readings")["retention.ms"].value
        '604800000'
        """
        resource = self._resource(topic, broker)
        try:
            found = self._ask(lambda client: only(client.describe_configs([resource], **self._limits())), topic=topic)
        except UnknownTopicError as error:
            raise self._unknown_topic(str(topic)) from error
        return {name: _value(found[name]) for name in sorted(found)}

    def set_configs(
        self, settings: Mapping[str, object], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Change some settings and leave the others as they are.

        >>> admin.set_configs({"retention.ms": 3_600_000}, topic="readings")
        """
        from confluent_kafka.admin import AlterConfigOpType

        self._alter({key: setting_text(value) for key, value in settings.items()}, AlterConfigOpType.SET, topic, broker)

    def append_configs(
        self, settings: Mapping[str, object], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Add items to settings that are lists; what is there already stays as it is.

        >>> admin.append_configs({"cleanup.policy": "compact"}, topic="readings")
        """
        from confluent_kafka.admin import AlterConfigOpType

        self._alter({key: setting_text(one) for key, one in settings.items()}, AlterConfigOpType.APPEND, topic, broker)

    def subtract_configs(
        self, settings: Mapping[str, object], *, topic: str | None = None, broker: int | None = None
    ) -> None:
        """Take items away from settings that are lists; what is not there is no error.

        >>> admin.subtract_configs({"cleanup.policy": "compact"}, topic="readings")
        """
        from confluent_kafka.admin import AlterConfigOpType

        changes = {key: setting_text(one) for key, one in settings.items()}
        self._alter(changes, AlterConfigOpType.SUBTRACT, topic, broker)

    def unset_configs(self, names: str | Iterable[str], *, topic: str | None = None, broker: int | None = None) -> None:
        """Give some settings back their defaults. A name that there is not is refused: a cluster would not mind."""
        from confluent_kafka.admin import AlterConfigOpType

        wanted = names_of(names)
        known = set(self.configs(topic=topic, broker=broker))
        if topic is not None:
            from bifrost.settings.topic import topic_keys

            known |= topic_keys().keys()  # those for tests are described only while they are set
        for name in wanted:
            if name not in known and not (broker is not None and name.startswith(_OF_A_LISTENER)):
                owner = f"topic {topic}" if topic is not None else f"broker {broker}"
                raise ConfigError(f"{owner} has no setting {name}", nearest(name, known), code="INVALID_CONFIG")
        self._alter(dict.fromkeys(wanted), AlterConfigOpType.DELETE, topic, broker)

    def _alter(
        self, settings: Mapping[str, str | None], change: AlterConfigOpType, topic: str | None, broker: int | None
    ) -> None:
        from confluent_kafka.admin import ConfigEntry

        if not settings:
            return
        resource = self._resource(topic, broker)
        for name, value in settings.items():
            resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=change))

        def call(client: AdminClient) -> Future[Any]:
            return only(client.incremental_alter_configs([resource], **self._limits()))

        try:
            self._ask(call, topic=topic)
        except UnknownTopicError as error:
            raise self._unknown_topic(str(topic)) from error
        except ConfigError as error:
            raise refusal(error, settings, self.configs(topic=topic, broker=broker)) from error

    def _resource(self, topic: str | None, broker: int | None) -> ConfigResource:
        from confluent_kafka.admin import ConfigResource, ResourceType

        if (topic is None) == (broker is None):
            raise InvalidRequestError("settings belong to one topic or one broker", "Name one of them, and not both.")
        if topic is not None:
            return ConfigResource(ResourceType.TOPIC, topic)
        known = [each.id for each in self.cluster().brokers]
        if broker not in known:  # librdkafka would wait for it until the time is up
            raise InvalidRequestError(f"there is no broker {broker}", f"There are: {', '.join(map(str, known))}.")
        return ConfigResource(ResourceType.BROKER, str(broker))


def _value(entry: Any) -> ConfigValue:
    from confluent_kafka.admin import ConfigSource

    source = ConfigSource(entry.source).name
    return ConfigValue(entry.name, entry.value, _SOURCES.get(source, "default"), entry.is_read_only, entry.is_sensitive)
