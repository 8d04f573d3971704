"""The application: routes, who is let in, refusals as JSON, and a description of it all with a page to read it on.

The page loads nothing from elsewhere: whoever runs a cluster may have no way to the internet.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bifrost import __version__
from bifrost.controller.http import answers, changes, overview, routes, views
from bifrost.controller.http.access import Access
from bifrost.controller.http.leaders import WaitError
from bifrost.controller.http.side import ClusterSide
from bifrost.errors import ApiError, ErrorCode

_SHAPES: Final = (
    answers.ErrorView,
    changes.CreatedTopicView,
    changes.NewTopicBody,
    overview.ClusterView,
    overview.QuorumView,
    overview.SeqView,
    overview.SeqsView,
    views.BrokersView,
    views.BrokerView,
    views.ConfigsView,
    views.LeadersView,
    views.ResourceConfigsView,
    views.TopicsView,
    views.TopicView,
)
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_ABOUT: Final = (
    "Odin, the controller quorum of a Bifrost cluster. Any Odin answers; changes are passed on to the active one. "
    "While something is being decided the answer is 503 with `Retry-After`, and says `HOGO LO`: please wait."
)


def build_app(side: ClusterSide, access: Access, is_crowded: Callable[[], bool]) -> FastAPI:
    """`is_crowded`: more are connected than are served."""
    app = FastAPI(title="Odin", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    for router in (routes.read_routes, routes.topic_routes, routes.config_routes, routes.watch_routes):
        app.include_router(router(side))
    app.add_middleware(Doorkeeper, access=access, side=side, is_crowded=is_crowded)
    _add_refusals(app, side)
    _add_description(app)
    return app


class Doorkeeper:
    """Looks at every request before anything else does, and counts answers."""

    def __init__(self, app: ASGIApp, *, access: Access, side: ClusterSide, is_crowded: Callable[[], bool]) -> None:
        self._app = app
        self._access = access
        self._is_crowded = is_crowded
        self._answers = side.metrics.http_answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answers[message["status"]] += 1
            await send(message)

        if self._is_crowded():
            response = _refuse(
                WaitError(ErrorCode.BROKER_NOT_AVAILABLE, "too many are here", waiting_for="others to go")
            )
            response.headers["Connection"] = "close"
            await response(scope, receive, counted)
            return
        request = Request(scope)
        headers = request.headers
        try:
            self._access.check(
                request.method,
                scope["path"],
                host=headers.get("host"),
                origin=headers.get("origin"),
                authorization=headers.get("authorization"),
            )
        except ApiError as error:
            await _refuse(error)(scope, receive, counted)
            return
        await self._app(scope, receive, counted)


def _add_refusals(app: FastAPI, side: ClusterSide) -> None:
    @app.exception_handler(ApiError)
    async def refused(_request: Request, error: ApiError) -> Response:
        return _refuse(error)

    @app.exception_handler(RequestValidationError)
    async def senseless(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
        return _refuse(ApiError(ErrorCode.INVALID_REQUEST, f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return _refuse(ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is nothing at {request.url.path}; see /docs"))
        reason = f"{request.method} {request.url.path}: {error.detail}"
        response = _refuse(ApiError(ErrorCode.INVALID_REQUEST, reason))
        response.status_code = error.status_code
        return response

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        side.on_unexpected(f"{request.method} {request.url.path}", error)
        return _refuse(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug of this Odin; its log has more"))


def _add_description(app: FastAPI) -> None:
    page = files("bifrost.controller.http").joinpath("page.html").read_bytes()

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)

    @app.get("/", include_in_schema=False)
    async def home() -> Response:
        return RedirectResponse("/docs")

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]  # FastAPI's own way to say it


def _described(app: FastAPI) -> dict[str, Any]:
    """The shapes are msgspec's, which FastAPI does not know."""
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, shapes = msgspec.json.schema_components(_SHAPES, ref_template="#/components/schemas/{name}")
    schema["components"] = {
        "schemas": shapes,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    schema["security"] = [{}, {"token": []}]
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)  # what does not fit is a 400 here, in the shape of all refusals
    return schema


def _refuse(error: ApiError) -> Response:
    refused = answers.refusal(error)
    response = routes.encoded(refused.body, refused.status)
    response.headers.update(refused.headers)
    return response
