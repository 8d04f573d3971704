"""Bifrost: event streaming that speaks Kafka's wire protocol, in Python.

    import bifrost

    with bifrost.Producer(value="json") as producer:
        producer.send("readings", {"celsius": 21.5}, key=b"garden")

    for message in bifrost.Consumer("readings", value="json", from_beginning=True, until_end=True):
        print(message.key, message.value)

Names are loaded when they are first used, so `import bifrost` itself costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know better; the module typing is half of what importing this would cost

if TYPE_CHECKING:
    from bifrost.client.admin import Admin as Admin
    from bifrost.client.async_admin import AsyncAdmin as AsyncAdmin
    from bifrost.client.async_consumer import AsyncConsumer as AsyncConsumer
    from bifrost.client.async_producer import AsyncProducer as AsyncProducer
    from bifrost.client.consumer import Consumer as Consumer
    from bifrost.client.errors import AuthorizationError as AuthorizationError
    from bifrost.client.errors import BifrostError as BifrostError
    from bifrost.client.errors import CommitError as CommitError
    from bifrost.client.errors import ConfigError as ConfigError
    from bifrost.client.errors import CorruptDataError as CorruptDataError
    from bifrost.client.errors import DeliveryError as DeliveryError
    from bifrost.client.errors import DeserializationError as DeserializationError
    from bifrost.client.errors import GroupNotEmptyError as GroupNotEmptyError
    from bifrost.client.errors import InvalidRequestError as InvalidRequestError
    from bifrost.client.errors import MessageTooLargeError as MessageTooLargeError
    from bifrost.client.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from bifrost.client.errors import SerializationError as SerializationError
    from bifrost.client.errors import TimedOutError as TimedOutError
    from bifrost.client.errors import TopicExistsError as TopicExistsError
    from bifrost.client.errors import UnknownGroupError as UnknownGroupError
    from bifrost.client.errors import UnknownPartitionError as UnknownPartitionError
    from bifrost.client.errors import UnknownTopicError as UnknownTopicError
    from bifrost.client.errors import UnreachableError as UnreachableError
    from bifrost.client.errors import UnsupportedError as UnsupportedError
    from bifrost.client.message import Message as Message
    from bifrost.client.producer import Acknowledged as Acknowledged
    from bifrost.client.producer import Delivery as Delivery
    from bifrost.client.producer import Producer as Producer
    from bifrost.client.report import Report as Report
    from bifrost.columnar.errors import CorruptBatch as CorruptBatch
    from bifrost.columnar.reading import ArrowTopic as ArrowTopic
    from bifrost.columnar.reading import read_arrow as read_arrow
    from bifrost.columnar.writing import write_arrow as write_arrow

__version__ = "0.1.0"

_HOMES = {
    "Producer": "producer",
    "Delivery": "producer",
    "Acknowledged": "producer",
    "AsyncProducer": "async_producer",
    "Report": "report",
    "Consumer": "consumer",
    "AsyncConsumer": "async_consumer",
    "Message": "message",
    "Admin": "admin",
    "AsyncAdmin": "async_admin",
    "AuthorizationError": "errors",
    "BifrostError": "errors",
    "CommitError": "errors",
    "ConfigError": "errors",
    "CorruptDataError": "errors",
    "DeliveryError": "errors",
    "DeserializationError": "errors",
    "GroupNotEmptyError": "errors",
    "InvalidRequestError": "errors",
    "MessageTooLargeError": "errors",
    "OffsetOutOfRangeError": "errors",
    "SerializationError": "errors",
    "TimedOutError": "errors",
    "TopicExistsError": "errors",
    "UnknownGroupError": "errors",
    "UnknownPartitionError": "errors",
    "UnknownTopicError": "errors",
    "UnreachableError": "errors",
    "UnsupportedError": "errors",
    "ArrowTopic": "columnar.reading",
    "CorruptBatch": "columnar.errors",
    "read_arrow": "columnar.reading",
    "write_arrow": "columnar.writing",
}
"""The module that each public name lives in; those without a dot are of `bifrost.client`."""

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  # names of a table are strings


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES[name]
    value = getattr(import_module(f"bifrost.{home}" if "." in home else f"bifrost.client.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
