"""The file that keeps votes: it comes back as it was stored, Kafka's own can be read, and damage is never a guess."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.raft.core.messages import ElectionState
from bifrost.raft.election_file import CorruptElectionError, decode_election, encode_election
from bifrost.types import NodeId

NODES = st.none() | st.integers(0, 2**31 - 1).map(NodeId)
STATES = st.builds(ElectionState, st.integers(0, 2**31 - 1), NODES, NODES, st.booleans())


@given(STATES)
def test_what_is_stored_is_read_again(state: ElectionState) -> None:
    assert decode_election(encode_election(state)) == state


def test_kafkas_own_files_can_be_read() -> None:
    first = {"clusterId": "", "leaderId": 1, "leaderEpoch": 2, "votedId": -1, "appliedOffset": 0, "data_version": 0}
    second = {
        "leaderId": -1,
        "leaderEpoch": 2,
        "votedId": 1,
        "votedDirectoryId": "J8aAPcfLQt2bqs1JT_rMgQ",
        "data_version": 1,
    }
    voted, led = (decode_election(json.dumps(one).encode()) for one in (second, first))
    assert led == ElectionState(2, None, NodeId(1), is_newborn=False)
    assert voted == ElectionState(2, NodeId(1), None, is_newborn=False)


def test_kafka_can_read_ours() -> None:
    stored = json.loads(encode_election(ElectionState(7, NodeId(3))))
    assert {"leaderId": -1, "leaderEpoch": 7, "votedId": 3, "data_version": 1}.items() <= stored.items()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"leaderEpoch": 1}',
        b'{"leaderEpoch": -2, "data_version": 1}',
        b'{"leaderEpoch": 1, "data_version": 9}',
    ],
)
def test_damage_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptElectionError):
        decode_election(data)


def test_no_flipped_bit_turns_a_vote_into_another() -> None:
    state = ElectionState(7, NodeId(3), NodeId(1), is_newborn=False)
    whole = encode_election(state)
    for position in range(8 * len(whole)):
        data = bytearray(whole)
        data[position // 8] ^= 1 << position % 8
        try:
            assert decode_election(bytes(data)) == state
        except CorruptElectionError:
            pass
