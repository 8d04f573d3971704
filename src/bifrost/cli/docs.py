"""The pages of docs/ that are made from code: written, or with `--check` only compared."""

from __future__ import annotations

import sys
from pathlib import Path

from bifrost.cli import apis, reference
from bifrost.settings import render_markdown as render_settings


def pages() -> dict[str, str]:
    return {
        "docs/apis.md": apis.render_markdown(),
        "docs/cli.md": reference.render_markdown(),
        "docs/settings.md": render_settings(),
    }


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    stale = [name for name, text in pages().items() if not Path(name).exists() or Path(name).read_text() != text]
    for name in stale:
        if check:
            print(f"{name} is stale: run `make docs`", file=sys.stderr)
        else:
            Path(name).write_text(pages()[name])
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
