"""`bifrost up --detach`: the same command once more, in a session of its own, awaited until it is ready."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from bifrost.cli.failure import fail
from bifrost.realm.plan import Shape
from bifrost.realm.supervisor import LOGS

LOG: Final = "up.log"


def start_in_background(shape: Shape, data: Path, port: int, options: Sequence[str]) -> None:
    """Print the ready line of a cluster that stays when this command ends."""
    folder = data / LOGS
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bifrost", "up", "--in-background", "--data", str(data.absolute())]
    command += ["--brokers", str(shape.brokers), "--odins", str(shape.odins), "--port", str(port), *options]
    with (folder / LOG).open("ab") as log:
        before = log.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if line.startswith("ready "):
        typer.echo(line, nl=False)
        return
    code = process.wait()
    with (folder / LOG).open("rb") as log:
        log.seek(before)
        said = log.read().decode(errors="replace").splitlines()
    errors = [each.removeprefix("error: ") for each in said if each.startswith("error: ")]
    fail("; ".join(errors) or f"it ended with exit code {code}", hint=f"More is in {folder / LOG}.", code=1)
