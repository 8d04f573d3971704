"""The site builds without a complaint, needs nothing from anywhere else, and leaves no link without an end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.blocks import ROOT, pages

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"'> ]+)
    |<link\b[^>]*\bhref=["']?([^"'> ]+)
    |url\(["']?([^"')]+)
    |@import\s+["']([^"']+)""",
    re.VERBOSE,
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def build(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does. Never with --quiet: what is not logged is no warning, and --strict would be blind."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    result = build(ROOT / "mkdocs.yml", target)
    assert result.returncode == 0, result.stdout + result.stderr
    return target


def loaded(site: Path) -> set[str]:
    """Whatever a browser fetches by itself to show the pages."""
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    return {
        next(filter(None, found))
        for file in files
        for found in _LOADED.findall(file.read_text(encoding="utf-8"))
        if any(found)
    }


@pytest.mark.xdist_group("site")
def test_every_page_is_in_the_site(site: Path) -> None:
    written = {page.removeprefix("docs/").removesuffix(".md") for page in pages() if page != "README.md"}
    built = {str(file.relative_to(site).with_suffix("")) for file in site.rglob("*.html")}
    assert {"adr/README"} <= written
    assert written - {"adr/README"} | {"adr/index", "404"} == built


@pytest.mark.xdist_group("site")
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = loaded(site)
    assert any(name.endswith("site.css") for name in found)
    assert {name for name in found if re.match(r"(\w+:)?//", name)} == set()


@pytest.mark.xdist_group("site")
def test_what_would_be_loaded_from_elsewhere_is_found(site: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<link rel="x" href=https://cdn.test/a.css><script src="//cdn.test/b.js">')
    (tmp_path / "page.css").write_text('@import "https://cdn.test/c.css"; body { background: url(https://cdn.test/d) }')
    assert {name.rpartition("/")[2] for name in loaded(tmp_path)} == {"a.css", "b.js", "c.css", "d"}


@pytest.mark.xdist_group("site")
def test_a_link_to_nothing_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[nowhere](nowhere.md) and [there](#nowhere)\n")
    config = re.sub(r"(?ms)^nav:.*?(?=^\w)", "", (ROOT / "mkdocs.yml").read_text())
    (tmp_path / "mkdocs.yml").write_text(config)
    result = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert result.returncode != 0
    assert "nowhere.md" in result.stderr
    assert "#nowhere" in result.stderr


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))
    assert re.findall(r"^\| \[\d+\]\((.*?)\) \|", listed, re.MULTILINE) == decisions


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_site_have_an_end(name: str) -> None:
    targets = [unquote(a or b) for a, b in _LINK.findall((ROOT / name).read_text(encoding="utf-8"))]
    assert targets
    missing = [each for each in targets if "://" not in each and not (ROOT / each.partition("#")[0]).exists()]
    assert missing == []
