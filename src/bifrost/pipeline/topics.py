"""The topics that a pipeline reads and writes: whether they are there, and where they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Self

from bifrost.client.errors import BifrostError, UnknownTopicError
from bifrost.pipeline.flows import COMPLETED, Flow
from bifrost.types import TopicPartition

_PATIENCE: Final = {"request.timeout.ms": "3000", "default.api.timeout.ms": "3000"}


@dataclass(frozen=True, slots=True)
class TopicUse:
    """Options of `format("bifrost")` in one flow or sink."""

    owner: str
    options: Mapping[str, str]
    is_streaming: bool = True
    is_sink: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Topics that are named in the options; those of a pattern are not."""
        options = {name.lower(): value for name, value in self.options.items()}
        given = options.get("topic", "") if self.is_sink else options.get("subscribe", "")
        return tuple(each.strip() for each in given.split(",") if each.strip())


def check_brokers(bootstrap: str) -> None:
    """Raises UnreachableError within seconds if nobody is there."""
    from bifrost.client.wire import WireClient

    with WireClient(bootstrap, _PATIENCE) as client:
        client.topics()


def check_topics(uses: Iterable[TopicUse]) -> None:
    """Every option is right and every topic exists: what Spark would find out one flow after the other."""
    from bifrost.client.wire import shared_client
    from bifrost.spark.option_table import Use
    from bifrost.spark.read_options import read_options
    from bifrost.spark.write_options import write_options

    for use in uses:
        try:
            options = (
                write_options(use.options, Use.STREAM_WRITE)
                if use.is_sink
                else read_options(use.options, Use.STREAM_READ if use.is_streaming else Use.BATCH_READ)
            )
            existing = shared_client(options.bootstrap, options.settings).topics(internal=True)
        except BifrostError as error:
            raise type(error)(f"{use.owner}: {error.problem}", error.hint) from error
        for topic in use.names:
            if topic not in existing:
                near = get_close_matches(topic, existing, n=1, cutoff=0.6)
                meant = f"Did you mean {near[0]}? " if near else ""
                raise UnknownTopicError(
                    f"{use.owner} {'writes' if use.is_sink else 'reads'} topic {topic}, which does not exist",
                    f"{meant}Create it: `bifrost topic create {topic}`.",
                )


class Ends:
    """Where the topics of each flow end, for its lag: when the run began, and now."""

    def __init__(self, latest: Mapping[str, Sequence[Callable[[], Mapping[TopicPartition, int]]]]) -> None:
        """Who to ask, by the name of the flow: one for each stream of topics that it reads."""
        self._latest = latest
        self._first = {flow: self._now(flow) or {} for flow in latest}

    @classmethod
    def of(cls, uses: Iterable[TopicUse]) -> Self:
        from bifrost.spark.brokers import open_brokers
        from bifrost.spark.locator import Locator
        from bifrost.spark.option_table import Use
        from bifrost.spark.read_options import read_options

        latest: dict[str, list[Callable[[], Mapping[TopicPartition, int]]]] = {}
        for use in uses:
            if not use.is_sink and use.is_streaming:
                options = read_options(use.options, Use.STREAM_READ)
                latest.setdefault(use.owner, []).append(Locator(open_brokers(options), options).latest)
        return cls(latest)

    def lag(self, flow: Flow) -> int | None:
        """None if it reads no topic, has finished no batch, or the brokers do not answer just now."""
        # Who completes without a batch has found nothing new: it is where its topics ended, or further.
        position = flow.position or (self._first.get(flow.name) if flow.state == COMPLETED else None)
        ends = self._now(flow.name) if position else None
        if not position or ends is None:
            return None
        return sum(max(0, offset - position.get(partition, 0)) for partition, offset in ends.items())

    def _now(self, flow: str) -> dict[TopicPartition, int] | None:
        """None as well for a flow that reads no topic, such as one that follows a table."""
        if flow not in self._latest:
            return None
        try:
            return {partition: offset for ask in self._latest[flow] for partition, offset in ask().items()}
        except BifrostError:
            return None
