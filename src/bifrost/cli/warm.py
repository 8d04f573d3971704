"""`bifrost warm`: the kernels for columns compiled ahead of time, so that no job waits for a compiler."""

from __future__ import annotations

import typer

from bifrost.cli.options import Json
from bifrost.cli.output import print_json, remark


def warm(as_json: Json = False) -> None:
    """Compile the kernels that read and write topics as Arrow.

    The first program on a machine that reads a topic as columns compiles them,
    which takes some seconds; every later one loads them in a fraction of one.
    Run this when you build an image or set up an executor, and none will wait.

    \b
    $ bifrost warm
    $ NUMBA_CACHE_DIR=/opt/kernels bifrost warm --json

    They are kept in bifrost/kernels in your cache directory, or where
    NUMBA_CACHE_DIR says, and compiled anew when Bifrost, numba or the kind of
    processor changes. Without numba, slower kernels of numpy are used.
    """
    from bifrost.columnar.kernels import chosen
    from bifrost.columnar.kernels.warming import warm_up

    if chosen() == "numba" and not as_json:
        remark("loading numba, and compiling what is not compiled yet ...")
    warmed = warm_up()
    if as_json:
        print_json(warmed)
    elif warmed.kernels == "numpy":
        typer.echo(
            "Nothing to compile: the kernels of numpy are used. pip install 'bifrost-stream[arrow]' for numba's."
        )
    else:
        done = f"Compiled {warmed.compiled} kernels" if warmed.compiled else "Every kernel was compiled already"
        kept = warmed.directory or "nowhere: no directory can be written to that is only yours; set NUMBA_CACHE_DIR"
        typer.echo(f"{done}; ready after {warmed.seconds:.1f} s. Kept in {kept}")
