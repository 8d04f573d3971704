"""The wire client: whole record batches in and out of any Kafka cluster, for code that moves them in bulk.

    from bifrost.client.wire import LATEST, WireClient

    with WireClient("localhost:9092") as client:
        (end,) = client.list_offsets({("readings", 0): LATEST}).values()
        for fetched in client.fetch("readings", 0, 0, end.offset):
            decode(fetched.data)

Everything blocks, on plain sockets; only a producer has a thread. No record is ever looked at: what is fetched are
batches as they lie in the log, what is sent are batches that somebody else encoded. Applications want
`bifrost.Consumer` and `bifrost.Producer` instead; this serves columns, Spark and transactions across processes.
"""

from bifrost.client.wire.cache import shared_client
from bifrost.client.wire.client import WireClient
from bifrost.client.wire.fetching import Fetched, FetchStream
from bifrost.client.wire.lanes import Appended, Pending
from bifrost.client.wire.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
from bifrost.client.wire.producer import BatchProducer
from bifrost.client.wire.settings import READ_COMMITTED, READ_UNCOMMITTED

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Appended",
    "BatchProducer",
    "FetchStream",
    "Fetched",
    "OffsetAndTimestamp",
    "Pending",
    "WireClient",
    "shared_client",
]
