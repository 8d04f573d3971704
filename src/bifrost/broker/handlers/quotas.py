"""DescribeClientQuotas and AlterClientQuotas: what clients may use of the brokers."""

from __future__ import annotations

from bifrost.broker.context import ControllerContext, RequestContext
from bifrost.broker.registry import admin_api, api
from bifrost.controller.core.client_quotas import (
    AlteredQuota,
    QuotaAlteration,
    QuotaFilter,
    alter_client_quotas,
    describe_client_quotas,
    entity_of,
)
from bifrost.controller.core.records import QuotaEntity
from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaEntityPart,
    QuotaValue,
)


@api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=range(2),
    on_error=lambda _request, code, detail: DescribeClientQuotasResponse(error_code=code, error_message=detail),
)
def describe_quotas(ctx: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """KIP-546. v1 is flexible."""
    wanted = [QuotaFilter(one.entity_type, one.match_type, one.match) for one in request.components]
    found = describe_client_quotas(ctx.broker.image, wanted, strict=request.strict)
    return DescribeClientQuotasResponse(
        error_message="",  # Kafka's word for a success
        entries=[
            DescribeClientQuotasEntry(
                entity=_parts(entity), values=[QuotaValue(key=key, value=value) for key, value in quotas.items()]
            )
            for entity, quotas in found
        ],
    )


def _names(entry: AlterClientQuotasEntry) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entry.entity}


def _parts(entity: QuotaEntity) -> list[QuotaEntityPart]:
    return [QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity]


def _altered(one: AlteredQuota) -> AlterClientQuotasResult:
    return AlterClientQuotasResult(error_code=one.error, error_message=one.message, entity=_parts(one.entity))


def _none_altered(request: AlterClientQuotasRequest, code: ErrorCode, detail: str) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[_altered(AlteredQuota(entity_of(_names(entry)), code, detail)) for entry in request.entries]
    )


@admin_api(ApiKey.ALTER_CLIENT_QUOTAS, versions=range(2), on_error=_none_altered)
async def alter_quotas(ctx: ControllerContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """KIP-546. v1 is flexible."""
    wanted = [
        QuotaAlteration(_names(entry), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    altered = await ctx.odin.controller.submit(
        lambda image: alter_client_quotas(image, wanted, validate_only=request.validate_only)
    )
    return AlterClientQuotasResponse(entries=[_altered(one) for one in altered])
