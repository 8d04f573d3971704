"""`bifrost server`: one production node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bifrost.cli.failure import fail
from bifrost.cli.options import parse_assignments
from bifrost.cli.serve import load, ready_line, serve, set_up_logging


def server(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A server.properties file with Kafka's names.", dir_okay=False)
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting that overrides the file; may be repeated."),
    ] = None,
    stop_on_eof: Annotated[
        bool,
        typer.Option("--stop-on-eof", help="Stop when standard input ends, as it does with whoever started the node."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Run one node in the foreground.

    Prints `ready bootstrap=HOST:PORT` once it serves, and `http=URL` behind it where `http.listener` is set.
    SIGINT and SIGTERM stop it cleanly.
    `bifrost settings` lists every setting with its default.
    """
    from bifrost.settings import parse_properties

    properties: dict[str, str] = {}
    if config is not None:
        try:
            properties.update(parse_properties(config.read_text(encoding="utf-8")))
        except OSError as error:
            fail(f"cannot read {config}: {error.strerror}", code=2)
        except UnicodeDecodeError:
            fail(f"cannot read {config}: it is not UTF-8 text", code=2)
    properties.update(parse_assignments(assignments or [], "--set", "num.partitions=3"))
    set_up_logging(verbose=verbose)
    serve(load(properties), lambda node: print(ready_line(node), flush=True), stop_on_eof=stop_on_eof)
