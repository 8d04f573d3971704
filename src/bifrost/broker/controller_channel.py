"""How a node asks the active controller, wherever that is: in this process, or behind a connection that is kept.

The quorum may be electing when somebody asks. Then the channel waits for the outcome, up to a limit, so that whoever
asks need not know. Clients are told to try again when the limit is reached (NOT_CONTROLLER).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, cast

from bifrost.broker.odin import Odin
from bifrost.errors import ApiError, ErrorCode, OutcomeUnknownError, ProtocolError
from bifrost.peers.connection import PeerConnection, PeerError
from bifrost.peers.names import node_name
from bifrost.peers.transport import Transport
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import LENGTH_BYTES, encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.messages.envelopes import EnvelopeRequest, EnvelopeResponse
from bifrost.protocol.schema import Message
from bifrost.raft.links import Links

_MS: Final = 1000.0

T = TypeVar("T", bound=Message)

Here = Callable[[Odin, Message], Awaitable[Message]]
"""Answers a request in this process; ApiError if it is refused as a whole."""


class ControllerChannel:
    """A connection has one request at a time: so a broker has a channel for what may take long, one for what
    replication asks, and one for heartbeats, whose connection is also how the controller notices that this process has
    died."""

    def __init__(self, odin: Odin, transport: Transport, here: Here, *, patience_ms: int, purpose: str) -> None:
        settings = odin.member.settings
        self._odin = odin
        self._here = here
        self._patience_s = patience_ms / _MS
        self._pause_s = settings.retry_backoff_ms / _MS
        self._links = Links(
            transport,
            settings.voters,
            node_name(odin.member.me, purpose),
            timeout_s=settings.request_timeout_ms / _MS,
        )
        self._opening = asyncio.Lock()
        self._closed = False

    async def ask(self, request: Message, kind: type[T]) -> T:
        """The active controller's answer. It may be asked more than once, so the request has to allow that.

        ApiError: it refuses, or cannot be found in time.
        """
        deadline = self._deadline()
        while True:
            try:
                if self._odin.controller.is_active:
                    return cast("T", await self._here(self._odin, request))
                link = await self._leader(deadline)
                answer = await link.ask(request, kind, timeout_s=self._patience_s)
                code = ErrorCode(getattr(answer, "error_code", ErrorCode.NONE))
                if code is ErrorCode.NONE:
                    return answer
                raise ApiError(code, f"the controller refuses {type(request).__name__}")
            except PeerError as error:
                await self._pause(deadline, str(error))
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                await self._pause(deadline, error.detail)

    async def forward(self, frame: bytes, client: str, *, once: bool = False) -> bytes:
        """A client's request as it came, header and all, and the answer in the same form (KIP-590).

        As in Kafka, it is sent again when whoever was asked leads no more. It may be carried out all the same: then
        not, if it must be done `once`.
        """
        deadline = self._deadline()
        host = client.rpartition(":")[0]
        envelope = EnvelopeRequest(request_data=frame, request_principal=None, client_host_address=host.encode())
        while True:
            link = await self._reach(deadline)
            try:
                answer = await link.ask(envelope, EnvelopeResponse, timeout_s=self._patience_s)
            except PeerError as error:
                # It may have been carried out. The client asks again, and finds that, if so.
                raise ApiError(ErrorCode.NOT_CONTROLLER, f"the controller's answer was lost: {error}") from error
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE and answer.response_data is not None:
                return answer.response_data
            if code is not ErrorCode.NOT_CONTROLLER:
                raise ApiError(code, "the controller did not take the request")
            if once and answer.response_data is not None:
                raise OutcomeUnknownError(code, "the controller leads no more; its change may be made all the same")
            await self._pause(deadline, "the controller that was asked does not lead any more")

    async def change(self, request: Message, kind: type[T]) -> T:
        """The active controller's answer to a request of this node's own, which must not be done twice: it is sent
        again only after a refusal that came before anything was written down.

        ApiError: it refuses, or cannot be found in time. After a lost answer nobody knows whether it was carried out.
        """
        if self._odin.controller.is_active:
            return cast("T", await self._here(self._odin, request))
        version = request.versions[-1]
        body = writer(type(request), version)(request)
        frame = encode_request(request.api, version, 0, self._links.client_id, body)[LENGTH_BYTES:]
        answer = await self.forward(frame, "", once=True)
        try:
            _, position = read_response_header(answer, 0, has_flexible_response_header(request.api, version))
            message, _ = reader(kind, version)(answer, position)
        except ProtocolError as error:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer makes no sense: {error}"
            ) from error
        return message

    def close(self) -> None:
        """This broker stops: nobody is asked any more."""
        self._closed = True
        self._links.close()

    async def _reach(self, deadline: float) -> PeerConnection:
        while True:
            try:
                return await self._leader(deadline)
            except PeerError as error:
                await self._pause(deadline, str(error))

    async def _leader(self, deadline: float) -> PeerConnection:
        """A connection to whoever leads, once somebody does; ApiError(NOT_CONTROLLER) if that is this node."""
        member, loop = self._odin.member, asyncio.get_running_loop()
        while True:
            leader = member.core.leader
            if leader is not None and leader != member.me:
                async with self._opening:
                    if self._closed:
                        raise ApiError(ErrorCode.NOT_CONTROLLER, "this broker stops")
                    if member.core.leader == leader:  # else much has changed while others used the door
                        return await self._links.to(leader)
                continue
            if self._odin.controller.is_active:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "this node leads by now; try again")
            if loop.time() >= deadline or self._closed:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "no controller leads at the moment; try again")
            await member.changed(deadline - loop.time())

    async def _pause(self, deadline: float, reason: str) -> None:
        if self._closed or asyncio.get_running_loop().time() + self._pause_s >= deadline:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"no controller leads at the moment; try again ({reason})")
        await asyncio.sleep(self._pause_s)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._patience_s
