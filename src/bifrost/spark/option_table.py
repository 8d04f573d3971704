"""Every option that the source and the sink know, each with what it is for.

Names reach us in lower case, whatever the program wrote. A name that is not here is a mistake worth an error: an option
that is silently ignored, such as a misspelt `maxOffsetsPerTrigger`, is found out in production.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Flag, auto
from typing import Final

from bifrost.spark.failures import OptionError

KAFKA_PREFIX: Final = "kafka."


class Use(Flag):
    """What a query does with the source or sink."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ANY = READ | WRITE


NOWHERE: Final = Use(0)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as people write it, where it counts, and where it is accepted without counting."""

    name: str
    use: Use
    also_accepted: Use = NOWHERE
    """Spark's connector ignores some options of streams in batches; a program that sets both must not fail here."""

    @property
    def key(self) -> str:
        return self.name.lower()


OPTIONS: Final = {
    option.key: option
    for option in (
        Option("subscribe", Use.READ),
        Option("subscribePattern", Use.READ),
        Option("assign", Use.READ),
        Option("startingOffsets", Use.READ),
        Option("startingTimestamp", Use.READ),
        Option("startingOffsetsByTimestamp", Use.READ),
        Option("startingOffsetsByTimestampStrategy", Use.READ),
        Option("endingOffsets", Use.BATCH_READ),
        Option("endingTimestamp", Use.BATCH_READ),
        Option("endingOffsetsByTimestamp", Use.BATCH_READ),
        Option("failOnDataLoss", Use.READ),
        Option("maxOffsetsPerTrigger", Use.STREAM_READ, Use.BATCH_READ),
        Option("minOffsetsPerTrigger", Use.STREAM_READ, Use.BATCH_READ),
        Option("maxTriggerDelay", Use.STREAM_READ, Use.BATCH_READ),
        Option("minPartitions", Use.READ),
        Option("maxRecordsPerPartition", Use.READ),
        Option("includeHeaders", Use.READ, Use.WRITE),
        Option("groupIdPrefix", Use.READ),
        Option("fetchOffset.numRetries", Use.READ),
        Option("fetchOffset.retryIntervalMs", Use.READ),
        Option("kafkaConsumer.pollTimeoutMs", Use.READ),
        Option("partition.metadata.cache.ttl.ms", Use.READ),
        Option("columns", Use.READ),
        Option("pushdown", Use.BATCH_READ, Use.STREAM_READ),
        Option("valueFormat", Use.READ),
        Option("mode", Use.READ),
        Option("columnNameOfCorruptRecord", Use.READ),
        Option("deadLetterTopic", Use.READ),
        Option("commitOffsets", Use.STREAM_READ),
        Option("topic", Use.WRITE),
    )
}

_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Spark adds these to what the program has set."""

_NOT_FOR_READING: Final = {
    "auto.offset.reset": "Say where to start with startingOffsets.",
    "key.deserializer": "Keys are bytes; use the functions of DataFrames on them.",
    "value.deserializer": "Values are bytes; use the functions of DataFrames on them, or valueFormat=json.",
    "enable.auto.commit": "Spark's checkpoint knows what was read; commitOffsets=true tells the group of it too.",
    "interceptor.classes": "There is no Java here.",
}
_NOT_FOR_WRITING: Final = {
    "key.serializer": "Keys are columns of strings or bytes.",
    "value.serializer": "Values are columns of strings or bytes.",
    "interceptor.classes": "There is no Java here.",
    "partitioner.class": "Keys go where Kafka's own partitioner sends them; a column partition overrules it.",
    "transactional.id": "The sink writes at least once, without transactions.",
}


def check_names(given: Iterable[str], use: Use) -> None:
    """Raises for an option that nobody knows, that has no place here, or that only Kafka's own clients have use for."""
    refused = _NOT_FOR_READING if use & Use.READ else _NOT_FOR_WRITING
    for name in given:
        key = name.lower()
        if key.startswith(KAFKA_PREFIX):
            reason = refused.get(key.removeprefix(KAFKA_PREFIX))
            if reason is not None:
                raise OptionError(f"the option {key} is not supported", reason)
        elif key not in OPTIONS:
            if key not in _SPARKS_OWN and not key.startswith("__"):
                raise _unknown(name, use)
        elif not use & (OPTIONS[key].use | OPTIONS[key].also_accepted):
            raise OptionError(
                f"the option {OPTIONS[key].name} has no place in {_WORDS[use]}", _ELSEWHERE[OPTIONS[key].use]
            )


_WORDS: Final = {
    Use.BATCH_READ: "a batch read",
    Use.STREAM_READ: "a streaming read",
    Use.BATCH_WRITE: "a batch write",
    Use.STREAM_WRITE: "a streaming write",
    Use.READ: "a read",
}
_ELSEWHERE: Final = {
    Use.BATCH_READ: "It is for spark.read.",
    Use.STREAM_READ: "It is for spark.readStream.",
    Use.READ: "It is for reading.",
    Use.WRITE: "It is for writing.",
}


def _unknown(name: str, use: Use) -> OptionError:
    if name.lower() == "path":
        return OptionError(
            "a path means nothing here", "Name topics with subscribe, subscribePattern or assign, or topic to write."
        )
    fitting = {option.key: option.name for option in OPTIONS.values() if option.use & use}
    fitting["kafka.bootstrap.servers"] = "kafka.bootstrap.servers"
    near = get_close_matches(name.lower(), fitting, n=1, cutoff=0.6)
    if not near and f"{KAFKA_PREFIX}{name.lower()}".count(".") >= 2:
        hint = f"Settings of Kafka's clients begin with kafka.: is {KAFKA_PREFIX}{name.lower()} meant?"
    else:
        hint = f"Is {fitting[near[0]]} meant?" if near else f"Known are {', '.join(sorted(fitting.values()))}."
    return OptionError(f"there is no option {name}", hint)
