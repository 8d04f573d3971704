"""What clients may use of a broker: who is limited, and to how much (KIP-546)."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, Message, Struct


class QuotaEntityPart(Struct):
    entity_type: str
    # Null is the default of its type.
    entity_name: str | None


class DescribeClientQuotasComponent(Struct):
    entity_type: str
    # 0 this name, 1 the default, 2 any of the type.
    match_type: I8
    match: str | None


class DescribeClientQuotasRequest(Message, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=range(2), flexible=1):
    components: list[DescribeClientQuotasComponent]
    # Whether entities that have further types are left out.
    strict: bool


class QuotaValue(Struct):
    key: str
    value: float


class DescribeClientQuotasEntry(Struct):
    entity: list[QuotaEntityPart]
    values: list[QuotaValue]


class DescribeClientQuotasResponse(Message, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=range(2), flexible=1):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None
    entries: list[DescribeClientQuotasEntry] | None = None


class QuotaOperation(Struct):
    key: str
    value: float
    remove: bool


class AlterClientQuotasEntry(Struct):
    entity: list[QuotaEntityPart]
    ops: list[QuotaOperation]


class AlterClientQuotasRequest(Message, api=ApiKey.ALTER_CLIENT_QUOTAS, versions=range(2), flexible=1):
    entries: list[AlterClientQuotasEntry]
    validate_only: bool


class AlterClientQuotasResult(Struct):
    error_code: I16 = 0
    error_message: str | None = None
    entity: list[QuotaEntityPart]


class AlterClientQuotasResponse(Message, api=ApiKey.ALTER_CLIENT_QUOTAS, versions=range(2), flexible=1):
    throttle_time_ms: I32 = 0
    entries: list[AlterClientQuotasResult] = []
