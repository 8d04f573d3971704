"""Who leads, as `/v1/leader` and `/v1/topics/{topic}` answer it: right, or "please wait". Pure.

The image handed in has to be current (`ClusterSide.until_current`): this file cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.state import Partition, Topic
from bifrost.controller.core.unclean_elections import allows_unclean
from bifrost.controller.http.views import LeadersView, LeaderView, TopicView, endpoint_views, known_topic, topic_view
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings


class WaitError(ApiError):
    """HOGO LO: what was asked for will be known once `waiting_for` has happened."""

    def __init__(self, code: ErrorCode, detail: str, *, waiting_for: str) -> None:
        super().__init__(code, detail)
        self.waiting_for = waiting_for


def leaders(image: MetadataImage, name: str, partition: int | None, listener: str | None = None) -> LeadersView:
    """The leaders of a topic, or of one partition of it, and where their listener of that name is, or their first.

    `WaitError`: of a partition that was asked for there is none.
    """
    topic = known_topic(image, name)
    if partition is not None and not 0 <= partition < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} has no partition {partition}")
    wanted = range(len(topic.partitions)) if partition is None else (partition,)
    check_led(topic, wanted)
    return LeadersView([_leader(image, topic, number, listener) for number in wanted], image.offset)


def one_topic(image: MetadataImage, settings: Settings, name: str) -> TopicView:
    """A topic with all its partitions. `WaitError`: a leader of one of them is being elected.

    From among those in sync a leader is elected by the very change that takes the last one away, so nobody ever sees
    that election under way. Under way is one from outside the ISR, while replicas that live are asked how far their
    logs go. Where none lives, or none may lead, nobody elects anybody: that is how it is, and is told with whom it
    waits for.
    """
    topic, live = known_topic(image, name), image.active_brokers()
    view = topic_view(topic)
    view.metadata_offset = image.offset
    may_elect = allows_unclean(image, current_settings(image, settings), name)
    for number, state in enumerate(topic.partitions):
        if state.has_leader:
            continue
        electable = [broker for broker in state.replicas if broker in live]
        if electable and may_elect:
            raise WaitError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"a leader of {name}-{number} is being elected",
                waiting_for=f"a leader of {name}-{number}: broker {_any_of(electable)} is to be elected",
            )
        view.partitions[number].waiting_for = _whom(state)
    return view


def check_led(topic: Topic, wanted: range | tuple[int, ...]) -> None:
    """WaitError if one of the partitions has no leader."""
    alone = [number for number in wanted if not topic.partitions[number].has_leader]
    if not alone:
        return
    whom = _whom(topic.partitions[alone[0]])
    others = f", and of {len(alone) - 1} more partitions" if len(alone) > 1 else ""
    raise WaitError(
        ErrorCode.LEADER_NOT_AVAILABLE,
        f"{topic.name}-{alone[0]} has no leader at the moment",
        waiting_for=f"a leader of {topic.name}-{alone[0]}{others}: {whom}",
    )


def _whom(state: Partition) -> str:
    return f"broker {_any_of(state.isr)} has to come back"


def _any_of(brokers: Sequence[int]) -> str:
    return " or ".join(map(str, brokers))


def _leader(image: MetadataImage, topic: Topic, number: int, listener: str | None) -> LeaderView:
    state = topic.partitions[number]
    broker = image.brokers.get(state.leader)
    everywhere = [] if broker is None else endpoint_views(broker)
    where = next((one for one in everywhere if listener in (None, one.listener)), None)
    if where is None and everywhere:
        raise ApiError(ErrorCode.LISTENER_NOT_FOUND, f"broker {state.leader} has no listener {listener}")
    return LeaderView(
        topic.name,
        number,
        state.leader,
        state.leader_epoch,
        where.host if where is not None else None,
        where.port if where is not None else None,
        everywhere,
    )
