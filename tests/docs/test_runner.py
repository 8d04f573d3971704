"""The runner of the pages finds what is wrong with a page, each wrong on a page of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import BadPage, blocks
from tests.docs.shown import difference
from tests.docs.story import Story, WrongPage, transcript


def page(*parts: tuple[str, str] | str) -> str:
    """A page of blocks, given as kind and text, and of lines between them."""
    written = [part if isinstance(part, str) else f"```{part[0]}\n{part[1]}\n```" for part in parts]
    return "\n\n".join(written) + "\n"


def tell(text: str, scratch: Path) -> None:
    with Story(scratch) as story:
        for block in blocks("page.md", text):
            story.tell(block)
        story.finish()


OUTPUT = 'text title="Output"'

RIGHT = {
    "one namespace, and a traceless end": page(("python", "x = 1"), ("python", "assert x == 1")),
    "what Python prints": page(("python", "print('a'); print('b 12')"), (OUTPUT, "a\nb …")),
    "what Python prints, without a title": page(("python", "print('a')"), ("text", "a"), "words", ("text", "b")),
    "a session": page(("python", "x = 1"), ("pycon", ">>> x + 1\n2\n>>> y = 3"), ("python", "assert y == 3")),
    "a shell that remembers": page(("console", "$ cd / && export X=5"), ("console", "$ echo $PWD $X\n/ 5")),
    "a command over lines": page(("console", "$ echo a \\\n  b\na b\n$ cat <<END\n> x\n> END\nx")),
    "an error that the page shows": page(("console", "$ bifrost settings nowhere\nerror: no setting…")),
    "the broker's address": page(
        ("python", "import os\nassert os.environ['BIFROST_BOOTSTRAP'] == '127.0.0.1:9092'\nprint('localhost:9092')"),
        (OUTPUT, "localhost:9092"),
        ("console", "$ echo $BIFROST_BOOTSTRAP\n127.0.0.1:9092"),
    ),
    "a broker of the page's own, twice": page(
        ("console", "$ bifrost up --brokers 1\n…\nready bootstrap=127.0.0.1:9092 http=http://127.0.0.1:9644"),
        ("console", "$ ls\nbifrost-data"),
        ("console", "^C\n$ ls bifrost-data\nnode-0"),
        ("console", "$ bifrost up --brokers 1"),
    ),
    "a file, and a command that follows it": page(
        ('text title="notes.txt"', "shown only"),
        ('json title="a.json"', "{}"),
        ("console", "$ tail -f a.json\n{}\n^C"),
    ),
    "files of Python": page(
        ('python title="app.py"', "print('hello')"),
        ('python title="test_app.py"', "def test_app():\n    import app"),
        ("console", "$ python app.py\nhello"),
        ("python", "import app"),
        (OUTPUT, "hello"),
    ),
    "blocks inside a list": "- so:\n\n    ```python\n    if True:\n        x = 1\n    ```\n",
    "what is only read": page(("toml", "a = 1"), ("json", '{"a": 1}\n{"b": 2}'), ("properties", "num.partitions=3")),
    "what is not run": "<!-- not run: it would fail -->\n```python\nraise SystemExit\n```\n",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_a_page_that_is_right(text: str, tmp_path: Path) -> None:
    tell(text, tmp_path)


WRONG = {
    "Python that raises": (page("words", ("python", "x = 1\nundefined")), r"page.md:4.*line 5.*NameError"),
    "Python that leaves": (page(("python", "raise SystemExit(0)")), "SystemExit"),
    "Python that dies": (page(("python", "import os; os._exit(0)")), "Python died"),
    "another output": (page(("python", "print('a')"), (OUTPUT, "b")), r"-b\n\+a"),
    "another output, without a title": (page(("python", "print('a')"), ("text", "b")), r"-b\n\+a"),
    "less output": (page(("python", "print('a')"), (OUTPUT, "a\nb")), r"-b"),
    "more output": (page(("console", "$ printf 'a\\nb\\n'\na")), r"\+b"),
    "a session that goes elsewhere": (page(("pycon", ">>> 1 + 1\n3")), "Got:\n +2"),
    "a command that fails": (page(("console", "$ true\n$ false")), "exit code 1 of false"),
    "a script that fails half way": (page(("bash", "false\ntrue")), "exit code"),
    "a command that should fail": (page(("console", "$ echo error: no\nerror: no")), "exit code 0"),
    "a command nobody knows": (page(("console", "$ bifrost frobnicate")), "exit code 2"),
    "a broker that does not start": (page(("console", "$ bifrost up --set a=b")), "does not serve"),
    "a test that fails": (page(("python", "def test_it():\n    assert 1 == 2")), "1 failed"),
    "a file that nobody ran": (page(('python title="app.py"', "1 / 0")), "ZeroDivisionError"),
    "a wrong setting": (page(("properties", "num.partition=3")), "did you mean num.partitions"),
    "TOML that is none": (page(("toml", "a = ")), "cannot be read as toml"),
    "JSON that is none": (page(("json", "{'a': 1}")), "cannot be read as json"),
}


@pytest.mark.parametrize(("text", "trouble"), WRONG.values(), ids=WRONG.keys())
def test_a_page_that_is_wrong(text: str, trouble: str, tmp_path: Path) -> None:
    with pytest.raises(WrongPage, match=f"(?s){trouble}"):
        tell(text, tmp_path)


BAD = {
    "no kind": ("```\nx\n```\n", "page.md:1: a block of kind ''"),
    "an unknown kind": ("```cobol\nx\n```\n", "a block of kind 'cobol'"),
    "no end": ("```python\nx\n", "never ends"),
    "no reason": ("<!-- not run: -->\n```python\nx\n```\n", "say why"),
    "a reason for nothing": ("<!-- not run: so -->\nwords\n```python\nx\n```\n", "directly above"),
    "a reason at the end": ("<!-- not run: so -->\n", "without a block"),
    "a transcript without a command": (page(("console", "ls")), r"begins with `\$ command`"),
    "an output of nothing": (page((OUTPUT, "a")), "directly below"),
}


@pytest.mark.parametrize(("text", "trouble"), BAD.values(), ids=BAD.keys())
def test_a_page_that_cannot_be_told(text: str, trouble: str, tmp_path: Path) -> None:
    with pytest.raises(BadPage, match=trouble):
        tell(text, tmp_path)


def test_python_that_never_ends_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.processes.PATIENCE_S", 0.5)
    with pytest.raises(WrongPage, match="no end after"):
        tell(page(("python", "import threading; threading.Event().wait()")), tmp_path)


def test_how_a_table_is_drawn_does_not_matter() -> None:
    assert difference("┃ a ┃ b ┃\n──────\n x   y", "┃ a   ┃ b    ┃\n───────────\n x     y  \n") is None
    assert difference("a b", "ab") is not None


def test_colours_and_redrawn_lines_are_not_compared() -> None:
    assert difference("done", "\x1b[31m10 %\r50 %\rdone\x1b[0m\n") is None


def test_a_transcript_is_cut_at_its_commands() -> None:
    (block,) = blocks("page.md", page(("console", "$ a\n1\n2\n$ b \\\n  c\n3\n^C")))
    assert transcript(block) == [("a", "1\n2\n"), ("b \\\n  c", "3\n^C\n")]
