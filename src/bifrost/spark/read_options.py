"""What a program asked of the source: every option checked, none of them resolved against a broker yet."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bifrost.spark.failures import OptionError
from bifrost.spark.limits import AtEdge, Limit, check_batch_limits, end_limit, start_limit
from bifrost.spark.offsets import EARLIEST, LATEST, parse_assignment
from bifrost.spark.option_table import Use, check_names
from bifrost.spark.option_values import OptionValues, checked_settings
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)

CORE_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
COLUMNS: Final = (*CORE_COLUMNS, "headers")
MODES: Final = ("permissive", "dropmalformed", "failfast")
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATIONS: Final = (READ_UNCOMMITTED, "read_committed")
FETCH_BYTES: Final = 8 << 20
"""Few large fetches cost a broker a fraction of what many small ones do; the client caps them by the range."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions are read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def option(self) -> str:
        """What the program said it with."""
        return "subscribe" if self.topics else "assign" if self.partitions else "subscribePattern"


@dataclass(frozen=True, slots=True)
class JsonValues:
    """How values become columns, where `valueFormat` is json."""

    mode: str
    corrupt_column: str
    dead_letter_topic: str | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All of it; small, and pickled to every task."""

    bootstrap: str
    settings: Mapping[str, str]
    """Of the wire client, under Kafka's names."""
    subscription: Subscription
    start: Limit
    end: Limit = field(default_factory=lambda: AtEdge(LATEST))
    columns: tuple[str, ...] = CORE_COLUMNS
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 0
    offset_attempts: int = 3
    offset_retry_ms: int = 10
    stall_ms: int = 120_000
    metadata_cache_ms: int = 0
    isolation: str = READ_UNCOMMITTED
    fetch_bytes: int = FETCH_BYTES
    json: JsonValues | None = None
    commit_group: str | None = None
    pushdown: bool = False


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """Checks what can be checked without a broker; `use` is BATCH_READ, STREAM_READ, or READ if not known yet."""
    options = OptionValues(given)
    check_names(options, use)
    start, end = _limits(options, use)
    settings = options.kafka_settings()
    bootstrap = options.bootstrap()
    settings.pop("bootstrap.servers")
    commit_group = _commit_group(options, settings.pop("group.id", None))
    if use == Use.BATCH_READ:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if name in options:
                _log.warning("the option %s is ignored in a batch", name)
    most = options.integer("maxOffsetsPerTrigger", at_least=1)
    least = options.integer("minOffsetsPerTrigger", at_least=1)
    if most is not None and least is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})")
    return ReadOptions(
        bootstrap=bootstrap,
        subscription=_subscription(options),
        start=start,
        end=end,
        columns=_columns(options),
        fail_on_data_loss=options.switch("failOnDataLoss", default=True),
        min_partitions=options.integer("minPartitions", at_least=1),
        max_records_per_partition=options.integer("maxRecordsPerPartition", at_least=1),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=options.span_ms("maxTriggerDelay", "15m"),
        offset_attempts=_or(options.integer("fetchOffset.numRetries", at_least=1), 3),
        offset_retry_ms=_or(options.integer("fetchOffset.retryIntervalMs", at_least=0), 10),
        stall_ms=_or(options.integer("kafkaConsumer.pollTimeoutMs", at_least=1), 120_000),
        metadata_cache_ms=max(0, _or(options.integer("partition.metadata.cache.ttl.ms", at_least=-1), -1)),
        isolation=_isolation(settings.pop("isolation.level", READ_UNCOMMITTED)),
        fetch_bytes=_fetch_bytes(settings.pop("max.partition.fetch.bytes", None)),
        json=_json_values(options),
        commit_group=commit_group,
        pushdown=options.switch("pushdown", default=False),
        settings=checked_settings(settings),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _limits(options: OptionValues, use: Use) -> tuple[Limit, Limit]:
    end = end_limit(options)
    if use == Use.STREAM_READ:
        return start_limit(options, default=LATEST), end
    start = start_limit(options, default=EARLIEST)
    if use == Use.BATCH_READ:
        check_batch_limits(start, end)
    return start, end


def _subscription(options: OptionValues) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if not given:
        raise OptionError("nothing says what to read", "Set one of subscribe, subscribePattern and assign.")
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} are set together", "Set only one of them.")
    if given == ["assign"]:
        return Subscription(partitions=tuple(parse_assignment("assign", options.text("assign") or "")))
    if given == ["subscribe"]:
        topics = options.words("subscribe")
        if not topics:
            raise OptionError("subscribe names no topic", "Write topics with commas between them.")
        return Subscription(topics=tuple(topics))
    pattern = options.text("subscribePattern") or ""
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"subscribePattern is no regular expression: {pattern}", f"{error}.") from None
    if not pattern:
        raise OptionError("subscribePattern is empty", "Give a regular expression that is found in the topics' names.")
    return Subscription(pattern=pattern)


def _columns(options: OptionValues) -> tuple[str, ...]:
    headers = options.switch("includeHeaders", default=False)
    if "columns" not in options:
        return COLUMNS if headers else CORE_COLUMNS
    by_key = {name.lower(): name for name in COLUMNS}
    wanted = options.words("columns")
    unknown = [name for name in wanted if name.lower() not in by_key]
    if unknown or not wanted:
        raise OptionError(
            f"columns names {', '.join(unknown) or 'no column'}",
            f"There are {', '.join(COLUMNS)}; commas between them.",
        )
    chosen = {by_key[name.lower()] for name in wanted} | ({"headers"} if headers else set())
    return tuple(name for name in COLUMNS if name in chosen)


def _isolation(level: str) -> str:
    if level.strip().lower() not in ISOLATIONS:
        raise OptionError(f"kafka.isolation.level cannot be {level}", f"It is {' or '.join(ISOLATIONS)}.")
    return level.strip().lower()


def _fetch_bytes(given: str | None) -> int:
    if given is None:
        return FETCH_BYTES
    if not given.strip().isdecimal() or int(given) == 0:
        raise OptionError(f"kafka.max.partition.fetch.bytes is {given}", "Give a number of bytes.")
    return int(given)


def _json_values(options: OptionValues) -> JsonValues | None:
    value_format = options.choice("valueFormat", ("binary", "json"))
    mode = options.choice("mode", MODES)
    dead_letters = options.text("deadLetterTopic")
    if value_format != "json":
        for name in ("mode", "columnNameOfCorruptRecord", "deadLetterTopic"):
            if name in options:
                raise OptionError(f"{name} is set without valueFormat=json")
        return None
    if "columns" in options:
        raise OptionError("columns is set with valueFormat=json", "The schema alone says which columns there are.")
    if dead_letters is not None and not dead_letters:
        raise OptionError("deadLetterTopic is empty", "Name a topic.")
    if dead_letters and mode == "failfast":
        raise OptionError("deadLetterTopic is set with mode=failfast", "A query that stops has no dead letters.")
    return JsonValues(
        mode or "permissive", options.text("columnNameOfCorruptRecord") or "_corrupt_record", dead_letters
    )


def _commit_group(options: OptionValues, group: str | None) -> str | None:
    if not options.switch("commitOffsets", default=False):
        return None
    if not group or not group.strip():
        raise OptionError("commitOffsets needs a group", "Set kafka.group.id to the group that is to see the progress.")
    return group.strip()
