"""`quorum-state`: what a member of the quorum may never forget, in Kafka's form. Kafka: FileQuorumStateStore.

Pure: bytes in, a value out, and the reverse. `newborn` and `checksum` are words of ours, which Kafka's own skips.
"""

from __future__ import annotations

from typing import Final

import msgspec
from crc32c import crc32c

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
    checksum: int | None = None
    """Of all others. Without it a flipped bit could turn a vote into another. Files of Kafka's own have none."""

    def sum(self) -> int:
        told = (self.leaderEpoch, self.data_version, self.leaderId, self.votedId, int(self.newborn))
        return crc32c(",".join(map(str, told)).encode())


class CorruptElectionError(ValueError):
    """The file does not say who was voted for: a node that guessed could vote twice."""


def encode_election(state: ElectionState) -> bytes:
    stored = _Stored(
        leaderEpoch=state.epoch,
        data_version=_VERSION,
        leaderId=_NOBODY if state.leader is None else state.leader,
        votedId=_NOBODY if state.voted_for is None else state.voted_for,
        newborn=state.is_newborn,
    )
    stored.checksum = stored.sum()
    return msgspec.json.encode({**msgspec.structs.asdict(stored), "votedDirectoryId": _NO_DIRECTORY})


def decode_election(data: bytes) -> ElectionState:
    """Raises `CorruptElectionError`."""
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except msgspec.DecodeError as error:
        raise CorruptElectionError(str(error)) from None
    if not 0 <= stored.data_version <= _VERSION:
        raise CorruptElectionError(f"it is of version {stored.data_version}, and this program reads {_VERSION}")
    if stored.checksum not in (None, stored.sum()):
        raise CorruptElectionError("its checksum does not match")
    if stored.leaderEpoch < 0:
        raise CorruptElectionError(f"epoch {stored.leaderEpoch}")
    return ElectionState(
        stored.leaderEpoch, _somebody(stored.votedId), _somebody(stored.leaderId), is_newborn=stored.newborn
    )


def _somebody(node_id: int) -> NodeId | None:
    return None if node_id == _NOBODY else NodeId(node_id)
