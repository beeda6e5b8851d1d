"""What the README and the documentation show works: every block of every page runs, every link leads somewhere."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest

import streamfold
from pages import ROOT, Page, skip_without_packages
from scripts import loaded
from streamfold import StreamfoldError, WarningCode
from streamfold.adapters import find_adapter
from streamfold.errors import exceptions
from tables import each_row

DOCS = ROOT / "docs"
PACKAGE = Path(streamfold.__file__).parent
MODULES = [
    *("client", "engine", "limits", "middleware", "net", "serving", "stores", "terminal"),
    *("tools", "turn_cache", "types"),
]
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
README = (ROOT / "README.md").read_text("utf-8")
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


@pytest.fixture
def hooks() -> Any:
    """The module that makes pages from the source."""
    return loaded("docs/hooks.py")


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize("name", NAMES)
async def test_every_block_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python blocks of a page are one program that runs, its tests pass, and its commands exist."""
    skip_without_packages(ROOT / name)
    before = set(sys.modules)
    try:
        await Page(ROOT / name, tmp_path, monkeypatch, capsys).run()
    finally:
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[module]


def test_every_page_is_in_the_navigation() -> None:
    """mkdocs would leave the others out."""
    listed = re.findall(r"^ *- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@each_row("name", [*NAMES, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "AGENTS.md"])
def test_every_link_leads_somewhere(name: str) -> None:
    """Links between files, and to headings of the same file."""
    page = ROOT / name
    text = page.read_text("utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in re.findall(r"^#+ .*", text, re.M)
    }
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        if path.startswith("src/"):  # the tests of the wheel run without the sources
            assert (PACKAGE.parent / path.removeprefix("src/")).exists(), target
            continue
        assert (page.parent / path).exists(), target
        assert path or anchor in headings, target


def test_the_table_of_warnings_is_up_to_date() -> None:
    """Each code has a meaning, from the comment beside it in the source."""
    made = loaded("tools/warnings_page.py")
    rows = made.warning_codes()
    assert [code for _, code, _ in rows] == list(get_args(WarningCode))
    assert all(group and meaning for group, _, meaning in rows)
    page = (DOCS / "concepts" / "warnings.md").read_text("utf-8")
    assert made.page() == page, "run `python tools/warnings_page.py`"


def test_every_extra_is_in_the_quickstart() -> None:
    """Whoever installs something finds its extras on the first page."""
    page = (DOCS / "quickstart.md").read_text("utf-8")
    for file in (ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))):
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        row = next((line for line in page.splitlines() if line.startswith(f"| `{project['name']}` |")), page)
        missing = [name for name in project.get("optional-dependencies", ()) if f"`{name}`" not in row]
        assert missing == [], project["name"]


@each_row("name", ["chat", "kimi", "responses", "anthropic", "gemini"])
def test_every_quirk_is_in_the_guide(name: str) -> None:
    """The page about endpoints of one's own has each quirk of each adapter, with a value that it may have."""
    page = (DOCS / "guides" / "own-endpoint.md").read_text("utf-8")
    named = set(re.findall(r"(\w+) = |`(\w+)`", page))
    names = {name for pair in named for name in pair}
    assert [field.name for field in fields(find_adapter(name).Quirks) if field.name not in names] == []


def test_every_exported_name_is_in_the_reference() -> None:
    """The pages of the reference name everything that can be imported from `streamfold` and its public modules,
    once."""
    pages = [page.read_text("utf-8") for page in sorted((DOCS / "reference").glob("*.md"))]
    named = [name for page in pages for name in re.findall(r"^::: (streamfold[\w.]+)$", page, re.M)]
    here = [name.removeprefix("streamfold.") for name in named if re.fullmatch(r"streamfold\.\w+", name)]
    here = [name for name in here if name != "deltas"]  # a module, all of it
    assert sorted(here) == sorted(set(streamfold.__all__) - {"__version__"})
    for public in (*(f"streamfold.{module}" for module in MODULES), "streamfold_jobs"):
        here = [name.rpartition(".")[2] for name in named if re.fullmatch(rf"{re.escape(public)}\.\w+", name)]
        names = set(import_module(public).__all__)
        assert sorted(here) == sorted(names - set(streamfold.__all__)), public  # a few stand at both


def test_the_error_tree_is_complete() -> None:
    """Every exported error is in the tree of the page about errors."""
    page = (DOCS / "guides" / "errors.md").read_text("utf-8")
    kinds = [
        name for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, StreamfoldError)
    ]
    assert [name for name in kinds if name not in page] == []


def test_the_readme_is_short_and_begins_with_code() -> None:
    """A stranger sees code within 20 lines, and the end of the page after 200."""
    lines = README.splitlines()
    assert 150 <= len(lines) <= 200
    assert next(number for number, line in enumerate(lines, 1) if line.startswith("```")) <= 20


def test_the_readme_says_what_the_fixtures_are() -> None:
    """How many were recorded, documented and made up, as the page of fixtures counts them."""
    page = (ROOT / "fixtures" / "README.md").read_text("utf-8")
    counted = [int(number) for number in re.findall(r"^- \*\*\w+\*\* \((\d+)\)", page, re.MULTILINE)]
    said = re.search(r"\[(\d+) answers\].*?\((\d+) \D+, (\d+) \D+, (\d+) \D+\)", README, re.DOTALL)
    assert said
    assert [int(number) for number in said.groups()] == [sum(counted), *counted]


def test_the_changelog_is_short() -> None:
    """A release is at most forty lines; what explains more than a version is in a history of at most 15 KB."""
    releases = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1:]
    assert [release.partition("\n")[0] for release in releases if len(release.strip().splitlines()) > 41] == []
    assert len((DOCS / "history.md").read_bytes()) <= 15_000


def test_the_set_up_commands_are_one_line_each() -> None:
    """The demo and the tests each need one line, which is also what the continuous integration runs."""
    assert re.search(r"^python3 -m venv .* && \.venv/bin/streamfold demo$", README, re.M)
    assert re.search(r"^python3 -m venv .* && \.venv/bin/python -m pytest$", README, re.M)


def test_the_moving_picture_is_up_to_date() -> None:
    """It is drawn from a fixture and from what the decoder makes of it."""
    module = loaded("tools/stream_picture.py")
    assert module.picture() == (DOCS / "assets" / "stream.svg").read_text("utf-8"), "run `nox -s picture`"
    assert [words for words in ("search_flights", "Tromsø") if words not in module.picture()] == []


def test_the_picture_of_the_architecture_is_up_to_date() -> None:
    """It is drawn from the imports, and has every layer and every package."""
    picture = loaded("tools/architecture_picture.py").picture()
    assert picture == (DOCS / "assets" / "architecture.svg").read_text("utf-8"), "run `nox -s picture`"
    assert [name for name in ("engine", "adapters", "streamfold_gateway") if f">{name}<" not in picture] == []


def test_the_picture_of_the_gateway_is_up_to_date() -> None:
    """It has the four APIs of clients at the paths where the gateway answers."""
    module = loaded("tools/gateway_picture.py")
    assert module.picture() == (DOCS / "assets" / "gateway.svg").read_text("utf-8"), "run `nox -s picture`"
    assert [path for path in ("/v1/responses", "/v1/messages") if path not in module.picture()] == []


def test_the_paths_of_the_architecture_page_are_there() -> None:
    """Whoever wants to change something opens a file that exists."""
    page = (DOCS / "architecture.md").read_text("utf-8")
    source = ROOT / "src" / "streamfold"
    named = [
        name
        for name in re.findall(r"[\w/-]+\.(?:py|toml|md)\b", page)
        if not re.search("NAME|API|test_|streamfold.toml", name)
    ]
    assert len(named) > 60
    folders = (
        ROOT,
        DOCS,
        source,
        *(ROOT / "packages").glob("*/src/*"),
        source / "adapters" / "chat",
    )
    assert [name for name in named if not any((folder / name).exists() for folder in folders)] == []


def test_the_functions_of_the_pipeline_page_are_there() -> None:
    """Each function that a chunk or a rejected option passes is in the module that its row names."""
    page = (DOCS / "concepts" / "pipeline.md").read_text("utf-8")
    rows = re.findall(r"^\| `(?:(\w+)\.)?(\w+)` \| `([\w/]+)` \|", page, re.MULTILINE)
    assert len(rows) >= 16
    missing = []
    for owner, function, module in rows:
        tree: Any = ast.parse((ROOT / "src" / "streamfold" / f"{module}.py").read_text("utf-8"))
        if owner:
            tree = next((node for node in tree.body if getattr(node, "name", None) == owner), tree)
        if function not in [getattr(node, "name", None) for node in tree.body]:
            missing.append(f"{owner}.{function} in {module}")
    assert missing == []


def test_the_layers_of_the_architecture_page() -> None:
    """Each layer has its row, above the layers that import it."""
    page = (DOCS / "architecture.md").read_text("utf-8").partition("## The layers")[2].partition("##")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in page.splitlines() if line.startswith("| `")]
    imports = loaded("tools/architecture_picture.py").layer_imports()
    place = {name: number for number, names in enumerate(rows) for name in names}
    assert imports.keys() - place.keys() <= {"catalogue_path", "public_names", "urls", "_version"}
    assert place.keys() <= imports.keys()
    upward = [(name, each) for name in place for each in imports[name] if place.get(each, -1) > place[name]]
    assert upward == []


def test_the_site_as_text(hooks: Any, tmp_path: Path) -> None:
    """For language models: a list of the pages, and one text with all of them, without the notes of our tests."""
    nav = [{"Home": "index.md"}, {"Guides": [{"Tools": "guides/tools.md"}]}]
    hooks.on_post_build(
        {"site_dir": str(tmp_path), "nav": nav, "site_name": "streamfold", "site_description": "A client."}
    )
    index, full = (tmp_path / "llms.txt").read_text("utf-8"), (tmp_path / "llms-full.txt").read_text("utf-8")
    assert index.startswith("# streamfold\n\n> A client.\n")
    assert "- [Guides: Tools](guides/tools/)" in index
    assert full.startswith("# Using streamfold, for coding agents")
    assert "needs_approval" in full
    assert "<!-- answers" not in full
    assert "<!-- prints" not in full


def test_what_agents_are_told_is_there() -> None:
    """The guide in the wheel names what can be imported, options that exist, and runs as far as it goes."""
    guide = (PACKAGE / "AGENTS.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    compile(code, "AGENTS.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    options = re.search(r"on every provider: `([^`]+)`", guide)
    assert options
    assert set(re.split(r",\s+", options[1])) <= set(streamfold.ChatOptions.__annotations__)
    for name in [*re.findall(r"`(\w+Error)`", guide), "tool_result", "run_tools", "tool"]:
        assert hasattr(streamfold, name), name
    for dotted in set(re.findall(r"`streamfold\.([\w.]+)`", guide)) - {"toml"}:
        module, _, name = f"streamfold.{dotted}".rpartition(".")
        assert find_spec(f"streamfold.{dotted}") or hasattr(import_module(module), name), dotted


@pytest.mark.thorough
@pytest.mark.skipif(
    not find_spec("mkdocs_material") and not find_spec("material"),
    reason="nox -s docs",
)
def test_the_site_is_built(tmp_path: Path) -> None:
    """mkdocs finds nothing wrong with the site."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True))
    assert (tmp_path / "site" / "quickstart" / "index.html").exists()
