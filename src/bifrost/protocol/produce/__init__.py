"""The Produce messages, versions 3 to 13, written by hand because every write passes through them.

5 adds log_start_offset, 7 allows zstd (KIP-110), 8 adds record errors and a message (KIP-467), 9 is flexible (KIP-482),
10 adds leader hints (KIP-951), 12 serves the transactions of KIP-890, 13 names topics by id (KIP-516). A topic id is 16
raw bytes throughout.
"""

from bifrost.protocol.produce.request import (
    API_KEY,
    FLEXIBLE_SINCE,
    TOPIC_IDS_SINCE,
    VERSIONS,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
    decode_request,
    encode_request,
    encode_request_pieces,
)
from bifrost.protocol.produce.response import (
    PartitionProduceResult,
    ProduceResponse,
    TopicProduceResult,
    decode_response,
    encode_response,
)

__all__ = [
    "API_KEY",
    "FLEXIBLE_SINCE",
    "TOPIC_IDS_SINCE",
    "VERSIONS",
    "PartitionProduceData",
    "PartitionProduceResult",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResult",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_request_pieces",
    "encode_response",
]
