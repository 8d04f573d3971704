"""A process that runs the Python of one page: block after block in one namespace, as a reader would type it.

Reads a JSON object a line: the block, its place and the environment of the moment. Answers with what was printed and,
if it went wrong, the traceback, which points into the page. Run as a script in the page's directory.
"""

from __future__ import annotations

import ast
import doctest
import json
import os
import sys
import tempfile
import traceback
from typing import Any


def tell(namespace: dict[str, Any], request: dict[str, Any]) -> str | None:
    """Run a block; the traceback of what it raised, without the frames of this file."""
    try:
        if request["kind"] == "pycon":
            return _session(namespace, request)
        tree = ast.parse(request["code"], request["page"])
        ast.increment_lineno(tree, request["line"] - 1)
        exec(compile(tree, request["page"], "exec", dont_inherit=True), namespace)
    except BaseException as error:  # noqa: BLE001  # whatever a page raises is its author's to see
        place = error.__traceback__.tb_next if error.__traceback__ else None
        return "".join(traceback.format_exception(type(error), error, place))
    return None


def _session(namespace: dict[str, Any], request: dict[str, Any]) -> str | None:
    code = request["code"].replace("…", "...")
    name = f"{request['page']}:{request['line']}"
    examples = doctest.DocTestParser().get_doctest(code, namespace, name, request["page"], request["line"] - 1)
    examples.globs = namespace  # else it works on a copy, and later blocks know nothing of it
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(examples, out=said.append, clear_globs=False)
    return "".join(said) if runner.failures else None


def main() -> None:
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.path.insert(0, os.getcwd())
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    for line in requests:
        request = json.loads(line)
        os.environ.update(request["environment"])
        with tempfile.TemporaryFile() as printed:
            for number in (1, 2):
                os.dup2(printed.fileno(), number)
            trouble = tell(namespace, request)
            sys.stdout.flush()
            sys.stderr.flush()
            printed.seek(0)
            output = printed.read().decode("utf-8", "replace")
        answers.write(json.dumps({"output": output, "trouble": trouble}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
