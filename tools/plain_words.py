"""Finds words and clauses that readers stop at, in the docs, docstrings and messages: `python tools/plain_words.py`.

`nox -s docs` runs it, and `tests/project/test_plain_words.py`. Each pattern says what to write instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LITTLE = r"(and|or|that|which|who|in|on|at|by|with|to|for|from|as|is|are|has|have|if|when|until|before|after|beside)\b"
PATTERNS = {
    r"\b(no|some)body\b": 'name who it is: "no client", "another process", "unknown"',
    r"\bwhoever\b": '"callers that", "programs that"',
    r"\bas (it|they) came\b": '"unchanged"',
    r"\b(go|goes|went|gone|going) on\b": '"continues"',
    r"\bso many\b": 'a number, or "that many"',
    r"\bunder way\b": '"in flight", "in progress"',
    r"\bin the mean\b": '"on average"',
    r"\bdear(est|er)?\b": '"expensive", "the most expensive"',
    r"\bhand(s|ed|ing)? (it |them |that |these )?(out|on)\b": '"delivers", "returns", "passes on"',
    r"\bmend(s|ed|ing)?\b": '"fixed", "repaired"',
    r"(?<!here )(?<!re there )\b(is|are|was|were) no (?!longer\b|more\b|one\b|less\b)": '"isn\'t a", "has no"',
    rf"(?<!instead )\bof (its|their|one's|your|our) own\b(?! (?!{_LITTLE})[a-z])": '"its own X"',
    r"\b(is|are|was|were|be|been|being|gets|get) asked(?! (for|to|whether|which|how)\b)": '"sent", "called"',
    r"\basked again\b": '"sent again"',
    r"\b(makes?|made|is|for|no|enough|have|wants?) room\b": '"space", "storage", "the limit"',
    r"\ball the same\b": '"anyway"',
    r"\bnothing but\b": '"only"',
    r"\b(is|are|was|were) to be [a-z]+(ed|en|ept|ut)\b": '"must be", "will be"',
    r"\bin the words of\b|\b(own|'s) words?\b": '"in the format of", "the provider\'s message", "the raw value"',
    r"\bon the wire\b": '"in the request", "in the JSON"',
    r"\bmade-up\b": '"generated"',
    r"\bgiv(e|es|en|ing) back\b": '"restores", "returns"',
    r"\b(has|have|had) come of\b": '"the part that arrived"',
    r"\bin vain\b": '"without success"',
    r"(?:^|[.:] |\n\n|^ *[-*] )(?-i:Those (that|who)|(What|Who) (?![^.]*\?)[a-z])": '"Rows that"',
}
_RULES = {re.compile(pattern, re.IGNORECASE | re.MULTILINE): advice for pattern, advice in PATTERNS.items()}
_WHETHER = re.compile(r"\AWhether\b")
# Lists of other people's bugs and words, and tables made from data.
_LEFT_OUT = {"bugs.md", "options-table.md", "history.md"}


def pages() -> Iterator[Path]:
    """Returns the pages for readers."""
    for folder in ("", "packages/*", "examples", "examples/*", "benchmarks", "docs", "docs/*"):
        for page in sorted(ROOT.glob(f"{folder}/*.md" if folder else "*.md")):
            if page.name not in _LEFT_OUT and page.name != "CHANGELOG.md":
                yield page


def modules() -> Iterator[Path]:
    """Returns the modules whose docstrings and messages are read by users."""
    yield from sorted((ROOT / "src").rglob("*.py"))
    yield from sorted(ROOT.glob("packages/*/src/**/*.py"))


def problems(text: str) -> Iterator[tuple[int, str, str]]:
    """Returns (offset, words, advice) for each pattern found in a text."""
    for rule, advice in _RULES.items():
        for found in rule.finditer(text):
            yield found.start(), " ".join(found[0].split()), advice


def _prose(page: str) -> str:
    """Returns a page with its code and headings blanked out, with the same length."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    page = re.sub(r"^ *```.*?^ *```", blank, page, flags=re.M | re.S)
    page = re.sub(r"<!--.*?-->|`[^`\n]+`", blank, page, flags=re.S)
    return re.sub(r"^#.*$", blank, page, flags=re.M)


def in_page(page: Path) -> Iterator[str]:
    """Returns the problems of a page, as lines for a terminal."""
    text = _prose(page.read_text("utf-8"))
    for at, words, advice in sorted(problems(text)):
        yield f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}: {words!r}: write {advice}"


def in_module(module: Path) -> Iterator[str]:
    """Returns the problems of a module's docstrings and other strings, as lines for a terminal."""
    tree = ast.parse(module.read_text("utf-8"))
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "_" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        text = re.sub(r"`[^`\n]+`", lambda found: " " * len(found[0]), text)
        found = [*problems(text)]
        if id(node) in documented and _WHETHER.match(text):
            found.append((0, "Whether", '"Returns whether", or for a property "True if"'))
        for at, words, advice in sorted(found):
            yield f"{module.relative_to(ROOT)}:{node.lineno + text.count(chr(10), 0, at)}: {words!r}: write {advice}"


def main() -> int:
    """Prints every problem. The exit code is 1 if there is one."""
    found = [line for page in pages() for line in in_page(page)]
    found += [line for module in modules() for line in in_module(module)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
