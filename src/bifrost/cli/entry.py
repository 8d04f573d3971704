"""Where `bifrost` and `python -m bifrost` begin: Ctrl-C ends them with one line from here on, also while they import.

Imports nothing itself that takes time: half of what a short command takes is spent on imports.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # what shells report for a process that SIGINT ended


def run() -> None:
    """The console script."""
    try:
        from bifrost.cli.main import app

        app(prog_name="bifrost")
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
