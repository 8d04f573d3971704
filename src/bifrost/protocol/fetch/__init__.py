"""The Fetch messages, versions 4 to 18, written by hand because every read and every replica passes through them.

5 adds log_start_offset, 7 sessions (KIP-227), 9 the leader epoch (KIP-320), 11 rack and preferred replica (KIP-392), 12
is flexible (KIP-482) and detects truncation (KIP-595), 13 names topics by id (KIP-516), 15 moves the replica id into a
tag (KIP-903), 16 adds leader hints (KIP-951), 17 the follower's directory (KIP-853), 18 its high watermark (KIP-1166).
A topic id is 16 raw bytes throughout.
"""

from bifrost.protocol.fetch.request import (
    API_KEY,
    FLEXIBLE_SINCE,
    TOPIC_IDS_SINCE,
    UNKNOWN_HIGH_WATERMARK,
    VERSIONS,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    decode_request,
    encode_request,
)
from bifrost.protocol.fetch.response import (
    FetchResponse,
    PartitionFetchResult,
    Records,
    SizedRecords,
    TopicFetchResult,
    decode_response,
    encode_response,
)

__all__ = [
    "API_KEY",
    "FLEXIBLE_SINCE",
    "TOPIC_IDS_SINCE",
    "UNKNOWN_HIGH_WATERMARK",
    "VERSIONS",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "ForgottenTopic",
    "PartitionFetchResult",
    "Records",
    "SizedRecords",
    "TopicFetchResult",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]
