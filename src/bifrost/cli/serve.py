"""Runs one node in the foreground until a signal ends it. Shared by `bifrost server` and `bifrost up`."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import typer

from bifrost.cli.failure import fail

if TYPE_CHECKING:  # heavy, and `--help` needs none of it
    import asyncio

    from bifrost.broker.node import Node
    from bifrost.settings import Settings


def ready_line(node: Node) -> str:
    """What is printed once clients are served; scripts read it."""
    return f"ready bootstrap={node.address}" + (f" http={node.http_url}" if node.http_url else "")


def load(properties: Mapping[str, str]) -> Settings:
    """Typed settings, with the parser's notes on stderr; a wrong one ends the command with a sentence."""
    from bifrost.settings import parse_settings

    try:
        settings, notes = parse_settings(properties)
    except ValueError as error:
        fail("\nerror: ".join(str(error).splitlines()), code=2)
    for note in notes:
        typer.secho(f"note: {note}", dim=True, err=True)
    return settings


def set_up_logging(*, verbose: bool) -> None:
    """One line per event on stderr."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )


def raise_open_files_limit() -> None:
    """A broker holds a file for every partition and a socket for every client."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(settings: Settings, on_ready: Callable[[Node], None], *, stop_on_eof: bool = False) -> None:
    """Run a node until SIGINT or SIGTERM, or until standard input ends; returns after a clean stop."""
    if sys.flags.optimize:
        fail("Bifrost relies on assertions to protect your data; run Python without -O", code=2)
    import asyncio

    from bifrost.broker.node import StartError, StoppedError
    from bifrost.errors import ApiError, StorageError

    raise_open_files_limit()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings, on_ready, stop_on_eof=stop_on_eof))
    except (StartError, StorageError, ApiError) as error:
        fail(error, code=1)
    except StoppedError:
        pass  # as it was told


async def _serve(settings: Settings, on_ready: Callable[[Node], None], *, stop_on_eof: bool) -> None:
    import asyncio

    from bifrost.broker.real_node import real_node
    from bifrost.cli.workers import patient_worker, workers

    node = real_node(settings, worker_pool=workers, cleaner_pool=patient_worker)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(node.on_loop_error)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, node.request_stop)
    if stop_on_eof:
        _watch_stdin(loop, node.request_stop)
    await node.start()
    gc.freeze()  # what a start has made stays; to look for garbage in it would hold up the loop for 15 ms each time
    on_ready(node)
    await node.run_until_stopped()


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """A pipe ends with the process at its other end, however that dies. Nobody is expected to write to it."""
    fd = sys.stdin.fileno()

    def read() -> None:
        if not os.read(fd, 4096):
            loop.remove_reader(fd)
            logging.getLogger(__name__).warning("stopping: whoever started this node is gone")
            stop()

    loop.add_reader(fd, read)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one, the standard loop elsewhere."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
