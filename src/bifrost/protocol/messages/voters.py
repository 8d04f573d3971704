"""Who votes in the metadata quorum: joining it, leaving it, moving to another address (KIP-853)."""

from typing import Annotated
from uuid import UUID

from msgspec import field

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, U16, Message, Struct, since, tag


class Endpoint(Struct):
    """Where a voter listens, under the name of that listener."""

    name: str
    host: str
    port: U16


class KRaftVersionFeature(Struct):
    """The versions of the quorum's protocol that a voter speaks."""

    min_supported_version: I16
    max_supported_version: I16


class AddRaftVoterRequest(Message, api=ApiKey.ADD_RAFT_VOTER, versions=range(2), flexible=0):
    """Makes an observer a voter. v1 may have its answer before the change is committed (KIP-1186)."""

    # Null is compared with nothing.
    cluster_id: str | None = None
    timeout_ms: I32
    voter_id: I32
    # A voter is an id together with a directory: one that lost its disk is another voter.
    voter_directory_id: UUID
    listeners: list[Endpoint]
    ack_when_committed: Annotated[bool, since(1)] = True


class AddRaftVoterResponse(Message, api=ApiKey.ADD_RAFT_VOTER, versions=range(2), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None


class RemoveRaftVoterRequest(Message, api=ApiKey.REMOVE_RAFT_VOTER, versions=range(1), flexible=0):
    """Makes a voter an observer. The leader may be that voter: it resigns once the change is committed."""

    cluster_id: str | None = None
    voter_id: I32
    voter_directory_id: UUID


class RemoveRaftVoterResponse(Message, api=ApiKey.REMOVE_RAFT_VOTER, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None


class UpdateRaftVoterRequest(Message, api=ApiKey.UPDATE_RAFT_VOTER, versions=range(1), flexible=0):
    """A voter tells the leader where it listens now and which protocol it speaks, as after an upgrade."""

    cluster_id: str | None = None
    current_leader_epoch: I32
    voter_id: I32
    voter_directory_id: UUID
    listeners: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


class CurrentLeader(Struct):
    leader_id: I32 = -1
    leader_epoch: I32 = -1
    host: str = ""
    port: I32 = 0


class UpdateRaftVoterResponse(Message, api=ApiKey.UPDATE_RAFT_VOTER, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    # Whom to tell instead; left at its defaults, it does not travel.
    current_leader: Annotated[CurrentLeader, tag(0)] = field(default_factory=CurrentLeader)
