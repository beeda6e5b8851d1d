"""Draws `docs/assets/architecture.svg`: the layers of `streamfold` and the packages above them, from their imports.

`nox -s picture` runs it; `tests/project/test_docs.py` fails when the picture is older than the imports. A layer stands
above all that it imports. Imports for type checkers alone are left out.
"""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path

__all__ = ["picture"]

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "assets" / "architecture.svg"
SOURCE = ROOT / "src" / "streamfold"
WIDTH, ROW, TOP, LEFT = 1000, 40, 60, 24

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d" \
font-family="system-ui, sans-serif" font-size="13">
<title id="t">Packages and layers of streamfold</title>
<desc id="d">Each row imports only from rows below its band; packages import public modules alone.</desc>
<style>
text{{fill:#e2e8f0}}.n{{font-family:ui-monospace,Menlo,Consolas,monospace;font-weight:600}}.d{{fill:#94a3b8;font-size:12px}}
.h{{fill:#94a3b8;font-size:12px;letter-spacing:.05em}}
</style>
<rect width="{width}" height="{height}" rx="12" fill="#0f172a"/>
"""


def layer_imports() -> dict[str, set[str]]:
    """Returns the layers that each layer of `streamfold` imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        *folders, name = path.relative_to(SOURCE).with_suffix("").parts
        layer = folders[0] if folders else name
        if layer not in ("__init__", "__main__"):
            found.setdefault(layer, set()).update(_imported_layers(path, folders) - {layer})
    return found


def package_imports() -> dict[str, set[str]]:
    """Returns the modules of other distributions of ours that each package imports."""
    found = {}
    for source in sorted(ROOT.glob("packages/*/src/streamfold_*")):
        names: set[str] = set()
        for path in sorted(source.rglob("*.py")):
            for node in _imports(path):
                if not node.level and (node.module or "").startswith("streamfold") and node.module != source.name:
                    names.add(".".join((node.module or "").split(".")[:2]))
        found[source.name] = {name for name in names if not name.startswith(source.name)}
    return found


def _imports(path: Path) -> list[ast.ImportFrom]:
    found: list[ast.ImportFrom] = []
    left: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while left:  # statements alone: there are no imports in expressions
        node = left.pop()
        if isinstance(node, ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            left += node.orelse
        elif isinstance(node, ast.stmt | ast.Module | ast.ExceptHandler | ast.match_case):
            for block in ("body", "orelse", "finalbody", "handlers", "cases"):
                left += getattr(node, block, ())
    return found


def _imported_layers(path: Path, folders: list[str]) -> set[str]:
    layers = set()
    for node in _imports(path):
        if node.level:
            base = folders[: len(folders) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            layers |= {[*base, *name.split(".")][0] for name in names}
    return layers


def bands(imports: dict[str, set[str]]) -> list[list[str]]:
    """Returns the layers from the bottom: each band imports from the bands below it."""
    placed: list[list[str]] = []
    left = dict(imports)
    while left:
        band = sorted(layer for layer, below in left.items() if not below & left.keys())
        if not band:
            raise ValueError(f"a cycle among {sorted(left)}")
        placed.append(band)
        left = {layer: below for layer, below in left.items() if layer not in band}
    return placed


def direct(imports: dict[str, set[str]], layer: str) -> list[str]:
    """Returns what a layer imports, without what the layers that it names import anyway."""
    reached: dict[str, set[str]] = {}

    def below(name: str) -> set[str]:
        if name not in reached:
            reached[name] = imports[name].union(*(below(each) for each in imports[name]))
        return reached[name]

    return sorted(imports[layer] - set().union(*(below(each) for each in imports[layer])))


def _sentence(folder: Path) -> str:
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    sentence = " ".join(doc.split("\n\n")[0].split())
    return sentence if len(sentence) <= 100 else sentence[: sentence.rfind(" ", 0, 99)] + " ..."


def picture() -> str:
    """Returns the picture as SVG."""
    imports = layer_imports()
    rows: list[str] = []
    y = TOP

    def row(name: str, sentence: str, uses: str, fill: str) -> None:
        nonlocal y
        rows.append(f'<rect x="{LEFT}" y="{y - 17}" width="{WIDTH - 2 * LEFT}" height="{ROW - 4}" fill="{fill}"/>')
        rows.append(f'<text class="n" x="{LEFT + 12}" y="{y + 5}">{escape(name)}</text>')
        rows.append(f'<text x="{LEFT + 210}" y="{y - 2}">{escape(sentence)}</text>')
        rows.append(f'<text class="d" x="{LEFT + 210}" y="{y + 14}">{escape(uses)}</text>')
        y += ROW

    rows.append(f'<text class="h" x="{LEFT}" y="{y - 28}">PACKAGES, over public modules alone</text>')
    for package, names in package_imports().items():
        used = ", ".join(sorted(name.removeprefix("streamfold.") for name in names))
        folder = ROOT / "packages" / package.removeprefix("streamfold_") / "src" / package
        row(
            package,
            _sentence(folder),
            used if len(used) <= 118 else used[: used.rfind(",", 0, 115)] + ", ...",
            "#1e3a5f",
        )
    y += 30
    rows.append(f'<text class="h" x="{LEFT}" y="{y - 28}">LAYERS OF streamfold, each over those that it imports</text>')
    for number, band in enumerate(reversed(bands(imports))):
        for layer in band:
            named = ", ".join(direct(imports, layer))
            row(
                layer,
                _sentence(SOURCE / layer),
                f"imports {named}" if named else "",
                ("#1e293b", "#273449")[number % 2],
            )
    return _HEAD.format(width=WIDTH, height=y + 4) + "\n".join(rows) + "\n</svg>\n"


if __name__ == "__main__":
    FILE.write_text(picture(), "utf-8")
