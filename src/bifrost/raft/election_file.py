"""`quorum-state`: what a member of the quorum may never forget, in Kafka's form. Kafka: FileQuorumStateStore.

Pure: bytes in, a value out, and the reverse. `newborn` is a word of ours; Kafka's own would not know it.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from bifrost.raft.core.messages import ElectionState
from bifrost.types import NodeId

ELECTION_FILE: Final = "quorum-state"
_NOBODY: Final = -1
_VERSION: Final = 1
_NO_DIRECTORY: Final = "A" * 22  # Kafka's text for a UUID of zeros: voters are known by their ids alone


class _Stored(msgspec.Struct, forbid_unknown_fields=False):
    leaderEpoch: int  # noqa: N815  # Kafka's names
    data_version: int
    leaderId: int = _NOBODY  # noqa: N815
    votedId: int = _NOBODY  # noqa: N815
    newborn: bool = False


class CorruptElectionError(ValueError):
    """The file does not say who was voted for: a node that guessed could vote twice."""


def encode_election(state: ElectionState) -> bytes:
    stored = {
        "leaderId": _NOBODY if state.leader is None else state.leader,
        "leaderEpoch": state.epoch,
        "votedId": _NOBODY if state.voted_for is None else state.voted_for,
        "votedDirectoryId": _NO_DIRECTORY,
        "data_version": _VERSION,
        "newborn": state.is_newborn,
    }
    return json.dumps(stored).encode()


def decode_election(data: bytes) -> ElectionState:
    """Raises `CorruptElectionError`."""
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except msgspec.DecodeError as error:
        raise CorruptElectionError(str(error)) from None
    if not 0 <= stored.data_version <= _VERSION:
        raise CorruptElectionError(f"it is of version {stored.data_version}, and this program reads {_VERSION}")
    if stored.leaderEpoch < 0:
        raise CorruptElectionError(f"epoch {stored.leaderEpoch}")
    return ElectionState(
        stored.leaderEpoch, _somebody(stored.votedId), _somebody(stored.leaderId), is_newborn=stored.newborn
    )


def _somebody(node_id: int) -> NodeId | None:
    return None if node_id == _NOBODY else NodeId(node_id)
