"""Producer ids: unique for the life of the cluster, handed to brokers in blocks (Kafka: ProducerIdControlManager)."""

from __future__ import annotations

from bifrost.controller.core.brokers import check_registered
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ProducerIdsAllocated
from bifrost.errors import ApiError, ErrorCode

BLOCK_SIZE = 1_000
_PRODUCER_ID_END = (1 << 63) - 1


def allocate_producer_ids(image: MetadataImage, *, broker_id: int, broker_epoch: int) -> Decision[range]:
    """The next block for this broker. A block is used up even if the broker dies with most of it unused."""
    check_registered(image, broker_id=broker_id, broker_epoch=broker_epoch)
    first = image.next_producer_id
    end = first + BLOCK_SIZE
    if end > _PRODUCER_ID_END:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "every producer id has been used")
    return Decision([ProducerIdsAllocated(broker_id, end)], range(first, end))
