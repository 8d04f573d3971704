"""What no client would send: the broker hangs up on that connection, and nobody else notices.

ApiVersions is the exception: a version that the broker does not know is answered, in the oldest format, with the list
of what it does know (KIP-511).
"""

from __future__ import annotations

import json
import struct

import pytest

from tests.compat import wire
from tests.compat.answers_file import FOLDER
from tests.compat.servers import Server
from tests.compat.test_wire_answers import RECORD

UNSUPPORTED_VERSION = 35
OFFERED = [
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "api_versions",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "offset_for_leader_epoch",
    "init_producer_id",
    "describe_cluster",
    "describe_configs",
    "describe_topic_partitions",
    "find_coordinator",
    "join_group",
    "sync_group",
    "heartbeat",
    "leave_group",
    "describe_groups",
    "list_groups",
    "delete_groups",
    "offset_commit",
    "offset_fetch",
    "offset_delete",
    "consumer_group_heartbeat",
    "consumer_group_describe",
]


def _assert_closed(broker: Server, data: bytes) -> None:
    with wire.Wire(broker.bootstrap) as bystander, wire.Wire(broker.bootstrap) as connection:
        connection.send_bytes(data)
        with pytest.raises(wire.ConnectionClosed):
            connection.receive_frame()
        assert bystander.ask("api_versions", 0)["error_code"] == "none"


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(api_key: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, 1) + b"c" + (b"\x00" if flexible else b"")


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (999, 0),
        (-1, 0),
        (3, 99),
        (3, -1),
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 14),
        (1, 3),
        (1, 19),
        (2, 0),
        (19, 1),
        (22, 6),
        (4, 0),
    ],
)
def test_an_unknown_api_or_version_closes_the_connection(api_key: int, version: int, broker: Server) -> None:
    _assert_closed(broker, _frame(_header(api_key, version, flexible=version > 8) + b"\x00" * 32))


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        struct.pack(">i", 2**31 - 1),
        _frame(b"\x00"),
        _frame(struct.pack(">hhi", 3, 9, 1)),
        _frame(struct.pack(">hhih", 3, 1, 1, 500) + b"short"),
        _frame(_header(3, 1) + struct.pack(">i", 2**31 - 1)),
        _frame(_header(3, 1) + struct.pack(">ih", 1, 30) + b"cut"),
        _frame(_header(3, 9, flexible=True) + b"\xff\xff\xff\xff\x7f"),
        _frame(_header(1, 4)),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes(range(200, 256)) * 4,
    ],
    ids=[
        "negative-length",
        "over-the-limit",
        "huge",
        "one-byte",
        "header-without-client-id",
        "client-id-past-the-end",
        "absurd-array",
        "string-past-the-end",
        "absurd-compact-array",
        "no-body",
        "http",
        "noise",
    ],
)
def test_a_frame_that_is_none_closes_the_connection(data: bytes, broker: Server) -> None:
    _assert_closed(broker, data)


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_format(broker: Server) -> None:
    with wire.Wire(broker.bootstrap) as connection:
        connection.send_frame(_header(18, 99, flexible=True) + b"\x00" * 8)
        answer = connection.receive_frame()
        correlation_id, error, count = struct.unpack_from(">ihi", answer)
        assert (correlation_id, error) == (7, UNSUPPORTED_VERSION)
        ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])}
        assert ranges[18] == (0, 4)
        assert len(answer) == 10 + 6 * count, "nothing follows the list in the oldest format"
        assert connection.ask("api_versions", 0)["error_code"] == "none", "the connection lives on"


@pytest.mark.parametrize("version", range(5))
def test_advertised_ranges_are_kafkas(version: int, broker: Server) -> None:
    """An API may be left out; what is offered is offered at all of Kafka's versions, since clients choose by range."""
    with wire.Wire(broker.bootstrap) as connection:
        answer = connection.ask("api_versions", version, client_software_name="compat", client_software_version="1")
    offered = {
        wire.api_name(each["api_key"]): [each["min_version"], each["max_version"]] for each in answer["api_keys"]
    }
    file = FOLDER / "advertised.json"
    if RECORD and broker.name == "kafka":
        file.write_text(json.dumps(offered, indent=1) + "\n")
    kafka = json.loads(file.read_text())
    if broker.name == "kafka":
        assert offered == kafka
    assert {name: offered[name] for name in OFFERED} == {name: kafka[name] for name in OFFERED}
    assert {name: versions for name, versions in offered.items() if versions != kafka.get(name)} == {}


def test_answers_come_in_the_order_of_the_requests(broker: Server) -> None:
    """A slow fetch holds back the quick requests behind it on the same connection."""
    with wire.Wire(broker.bootstrap) as connection:
        wanted = {"topics": [], "replica_id": -1, "max_wait": 300, "min_bytes": 1}
        connection.send("fetch", 4, **wanted)
        for version in (0, 2, 1):
            connection.send("api_versions", version)
        connection.receive("fetch", 4)
        for version in (0, 2, 1):
            assert connection.receive("api_versions", version)["error_code"] == "none"
