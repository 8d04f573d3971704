"""Every path, and what it answers. Thin: a handler reads what was asked, calls a pure function, and encodes.

Handlers are coroutines without exception: FastAPI would run others in threads, and the image belongs to the loop.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from bifrost.controller.core.events import EventId
from bifrost.controller.core.image import EVERY_BROKER
from bifrost.controller.http import answers, changes, exposition, leaders, overview, views
from bifrost.controller.http.side import ClusterSide
from bifrost.controller.http.stream import event_stream
from bifrost.errors import ApiError, ErrorCode
from bifrost.metrics import Metrics
from bifrost.protocol.messages.configs import IncrementalAlterConfigsResponse
from bifrost.protocol.messages.topics import CreateTopicsResponse, DeleteTopicsResponse

STREAMS_MAX: Final = 200

After = Annotated[str, Query(description="The last name of the page before.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many topics at most.")]


class EventResponse(StreamingResponse):
    """Counts itself for as long as it is open."""

    media_type = "text/event-stream"
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.metrics.http_streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.metrics.http_streams -= 1


def answered_by(view: type, *others: int, status: int = 200) -> dict[str, Any]:
    """What the description says of a path: the shape of its answer, and which refusals there are."""
    refusals = {code: _content(answers.ErrorView, _REFUSALS[code]) for code in (*others, 401)}
    return {"status_code": status, "response_model": None, "responses": {status: _content(view), **refusals}}


def read_routes(side: ClusterSide) -> APIRouter:
    router = APIRouter(tags=["the cluster"])

    @router.get("/v1/cluster", **answered_by(overview.ClusterView))
    async def cluster() -> Response:
        """The cluster in a few numbers, as this Odin knows it."""
        return encoded(overview.cluster_view(side))

    @router.get("/v1/brokers", **answered_by(views.BrokersView))
    async def brokers() -> Response:
        """Every registered broker, alive or not."""
        return encoded(views.brokers_view(side.image))

    @router.get("/v1/brokers/{broker}", **answered_by(views.BrokerView, 404))
    async def broker(broker: int) -> Response:
        """One broker."""
        return encoded(views.one_broker(side.image, broker))

    @router.get("/v1/topics", **answered_by(views.TopicsView, 400))
    async def topics(after: After = "", limit: Limit = 100) -> Response:
        """Topics in the order of their names, with their partitions; a page at a time. As this Odin knows them: so it
        was at `metadata_offset`."""
        return encoded(views.topics_page(side.image, after, limit))

    @router.get("/v1/topics/{topic}", **answered_by(views.TopicView, 404, 503))
    async def topic(topic: str) -> Response:
        """One topic: who leads, holds and is in sync with each partition. Never a leader of the past, as with
        /v1/leader."""
        await side.until_current()
        return encoded(leaders.one_topic(side.image, side.settings, topic))

    @router.get("/v1/topics/{topic}/seq", **answered_by(overview.SeqView, 404, 503))
    async def topic_seq(topic: str) -> Response:
        """The end offset of each partition, by the word of its leader: everything below it is committed."""
        if topic not in side.image.topics:  # it may have been created a moment ago, at another Odin
            await side.until_current()
        return encoded(overview.seq_view(topic, (await side.end_offsets([topic]))[topic]))

    @router.get("/v1/seq", **answered_by(overview.SeqsView, 400, 503))
    async def seq(after: After = "", limit: Limit = 100) -> Response:
        """The same for all topics, a page at a time. Those with a partition that nobody leads are waited for."""
        led, waiting, next_after = overview.led_topics(side.image, after, limit)
        return encoded(overview.SeqsView(await side.end_offsets(led), waiting, next_after))

    @router.get("/v1/leader", **answered_by(views.LeadersView, 400, 404, 503))
    async def leader(
        topic: str, partition: Annotated[int | None, Query(ge=0)] = None, listener: str | None = None
    ) -> Response:
        """Who leads a topic's partitions, or one of them, and where: at its listener of that name, or at its first.
        Never a leader of the past: an Odin that cannot know asks you to wait."""
        await side.until_current()
        return encoded(leaders.leaders(side.image, topic, partition, listener))

    @router.get("/v1/quorum", **answered_by(overview.QuorumView, 503))
    async def quorum() -> Response:
        """Which Odin is active, and how far all others and the brokers are, as the active one tells it."""
        return encoded(overview.quorum_view(await side.quorum()))

    return router


def config_routes(side: ClusterSide) -> APIRouter:
    router = APIRouter(tags=["configs"])

    @router.get("/v1/configs", **answered_by(views.ConfigsView, 400))
    async def configs(after: After = "", limit: Limit = 100) -> Response:
        """Whatever is stored, for topics a page at a time."""
        return encoded(views.configs_page(side.image, after, limit))

    @router.get("/v1/configs/topics/{topic}", **answered_by(views.ResourceConfigsView, 404))
    async def topic_configs(topic: str) -> Response:
        """What is stored for a topic."""
        return encoded(views.topic_configs(side.image, topic))

    @router.get("/v1/configs/brokers", **answered_by(views.ResourceConfigsView))
    async def every_broker_configs() -> Response:
        """What is stored for all brokers."""
        return encoded(views.broker_configs(side.image, EVERY_BROKER))

    @router.get("/v1/configs/brokers/{broker}", **answered_by(views.ResourceConfigsView, 404))
    async def broker_configs(broker: int) -> Response:
        """What is stored for one broker."""
        return encoded(views.broker_configs(side.image, str(broker)))

    async def alter(resource: str, name: str, wanted: changes.ConfigsBody) -> None:
        request = changes.alteration(resource, name, wanted)
        changes.check_altered(await side.change(request, IncrementalAlterConfigsResponse))

    @router.patch("/v1/configs/topics/{topic}", **answered_by(views.ResourceConfigsView, 400, 404, 503), **_CONFIGS)
    async def change_topic_configs(topic: str, request: Request) -> Response:
        """Set configs of a topic by name; null removes one."""
        await alter("topic", topic, await read(request, changes.ConfigsBody))
        return encoded(views.topic_configs(side.image, topic))

    @router.patch("/v1/configs/brokers", **answered_by(views.ResourceConfigsView, 400, 503), **_CONFIGS)
    async def change_every_broker_configs(request: Request) -> Response:
        """Set configs of all brokers by name; null removes one."""
        await alter("broker", EVERY_BROKER, await read(request, changes.ConfigsBody))
        return encoded(views.broker_configs(side.image, EVERY_BROKER))

    @router.patch("/v1/configs/brokers/{broker}", **answered_by(views.ResourceConfigsView, 400, 404, 503), **_CONFIGS)
    async def change_broker_configs(broker: int, request: Request) -> Response:
        """Set configs of one broker by name; null removes one."""
        views.broker_configs(side.image, str(broker))
        await alter("broker", str(broker), await read(request, changes.ConfigsBody))
        return encoded(views.broker_configs(side.image, str(broker)))

    @router.delete("/v1/configs/topics/{topic}/{config}", **answered_by(views.ResourceConfigsView, 400, 404, 503))
    async def remove_topic_config(topic: str, config: str) -> Response:
        """Remove a config of a topic: its default holds."""
        await alter("topic", topic, {config: None})
        return encoded(views.topic_configs(side.image, topic))

    return router


def topic_routes(side: ClusterSide) -> APIRouter:
    router = APIRouter(tags=["changes"])

    @router.post(
        "/v1/topics",
        **answered_by(changes.CreatedTopicView, 400, 409, 503, status=201),
        openapi_extra=_body(changes.NewTopicBody),
    )
    async def create_topic(request: Request) -> Response:
        """Create a topic."""
        wanted = await read(request, changes.NewTopicBody)
        created = changes.created(await side.change(changes.creation(wanted), CreateTopicsResponse))
        return encoded(created, 200 if wanted.validate_only else 201)

    @router.delete(
        "/v1/topics/{topic}", status_code=204, response_model=None, responses={404: {"description": "No such topic"}}
    )
    async def delete_topic(topic: str) -> Response:
        """Delete a topic, with its records."""
        changes.check_deleted(await side.change(changes.deletion(topic), DeleteTopicsResponse))
        return Response(status_code=204)

    return router


def watch_routes(side: ClusterSide) -> APIRouter:
    router = APIRouter(tags=["watching"])

    @router.get("/v1/events", response_model=None, responses={200: {"content": {"text/event-stream": {}}}})
    async def events(
        after: Annotated[
            str | None, Query(description="The last event that was seen; for what cannot set headers.")
        ] = None,
        last_event_id: Annotated[str | None, Header(description="The last event that was seen.")] = None,
    ) -> Response:
        """What happens, as it happens: a stream that goes on where it stopped, at any Odin."""
        named = after if after is not None else last_event_id
        try:
            last = EventId.parse(named) if named else None
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        if side.metrics.http_streams >= STREAMS_MAX:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{STREAMS_MAX} streams are open here; ask another Odin"
            )
        response = EventResponse(
            event_stream(side.history, lambda: side.image, last, until_current=side.until_current),
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        response.metrics = side.metrics
        return response

    @router.get("/metrics", response_model=None, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(exposition.expose(exposition.families(side)), media_type=exposition.CONTENT_TYPE)

    @router.get("/healthz", response_model=None, responses={200: {"description": "It lives"}})
    async def healthz() -> Response:
        """Whether this process lives. No token needed."""
        return encoded({"status": "ok", "node": side.node_id})

    @router.get("/readyz", response_model=None, responses={200: {"description": "It can answer"}})
    async def readyz() -> Response:
        """Whether this Odin leads the quorum or hears from whoever does. No token needed."""
        if not side.standing().hears_leader:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this Odin hears from no leader of the quorum")
        return encoded({"status": "ready", "node": side.node_id})

    return router


def encoded(view: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(view), status_code=status, media_type="application/json")


async def read(request: Request, kind: Any) -> Any:
    """The body, which has a bound. ApiError if it is none of this kind."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > changes.BODY_BYTES_MAX:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a body may have {changes.BODY_BYTES_MAX} bytes")
    return changes.read_body(bytes(body), kind)


def _content(view: type, description: str = "What was asked for") -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{view.__name__}"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _body(view: type) -> dict[str, Any]:
    return {"requestBody": {"required": True, **_content(view, "What to make")}}


_REFUSALS: Final = {
    400: "It makes no sense",
    401: "The token is missing or wrong",
    404: "There is none",
    409: "There is one already",
    503: "HOGO LO: please wait, and ask again",
}
_CONFIGS: Final[dict[str, Any]] = {
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                    },
                    "example": {"retention.ms": 86400000},
                }
            },
        }
    }
}
