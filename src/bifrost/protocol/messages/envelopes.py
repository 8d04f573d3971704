"""A client's request that a broker passes on to the active controller, and the answer on its way back (KIP-590)."""

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, Message


class EnvelopeRequest(Message, api=ApiKey.ENVELOPE, versions=range(1), flexible=0):
    """What is inside has a header of its own, and is answered in its own version."""

    request_data: bytes
    # Who asked, so that the controller can decide what they may.
    request_principal: bytes | None = None
    # Four bytes, or sixteen.
    client_host_address: bytes


class EnvelopeResponse(Message, api=ApiKey.ENVELOPE, versions=range(1), flexible=0):
    """The error is that of the delivery, such as NOT_CONTROLLER; errors of the request are inside."""

    response_data: bytes | None = None
    error_code: I16 = 0
