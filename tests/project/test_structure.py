"""Architecture: imports only go down, the pure layers stay pure, and what is exported is what is there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import streamfold
from tables import each_row

PACKAGE = Path(streamfold.__file__).parent
PACKAGES = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path != PACKAGE / "__init__.py"
)
OURS = {f"streamfold.{module}" for module in MODULES}
PURE = [
    "jsontext",
    "errors",
    "types",
    "deltas",
    "requests",
    "adapters",
    "engine",
]  # bytes to chunks, and requests to JSON


def _is_package(module: str) -> bool:
    return PACKAGE.joinpath(*module.split("."), "__init__.py").exists()


@cache
def _tree(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8"))


@cache
def _nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(_tree(module)))


def _imports_and_more(module: str) -> list[ast.AST]:
    """The nodes of a module. `errors` and `types` name classes of upper layers in annotations: these aren't counted."""
    if module.split(".")[0] not in ("errors", "types"):
        return _nodes(module)
    typed = {
        id(inner)
        for node in _nodes(module)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return [node for node in _nodes(module) if id(node) not in typed]


@cache
def _imports(module: str) -> set[str]:
    """What a module imports: `.package.module` for our own modules, the first part of the name for everybody else's."""
    package = module.split(".") if _is_package(module) else module.split(".")[:-1]
    found = set()
    for node in _imports_and_more(module):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {"." + ".".join([*base, name]) for name in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            words = [word.value for word in ast.walk(node) if isinstance(word, ast.Constant)]
            found |= {word.split(".")[0] for word in words if isinstance(word, str) and word.strip(".") == word}
        elif isinstance(node, ast.Constant) and node.value in OURS and "." in str(node.value).partition(".")[2]:
            found.add(str(node.value).removeprefix("streamfold"))  # imported by this name while the program runs
    return found


def _dependencies() -> dict[str, set[str]]:
    """Which packages each package imports from; `streamfold` itself and `__main__` are above all of them."""
    dependencies: dict[str, set[str]] = {}
    for module in set(MODULES) - {"__main__"}:
        layer = module.split(".")[0]
        below = {name.split(".")[1] for name in _imports(module) if name.startswith(".")} - {layer}
        dependencies[layer] = dependencies.get(layer, set()) | below
    return dependencies


def test_imports_go_down() -> None:
    """Each package is above all that it imports: there is no cycle."""
    dependencies, layers = _dependencies(), list[set[str]]()
    while left := set(dependencies) - set().union(*layers):
        layers.append({package for package in left if not dependencies[package] & left})
        assert layers[-1], f"a cycle among {sorted(left)}"


def _imported_modules(module: str) -> set[str]:
    """Our own modules that a module names in its imports, wherever they stand: in functions and for types too."""
    here = ["streamfold", *module.split(".")]
    found = set()
    for node in _imports_and_more(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + _is_package(module)] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            inside = {f"{start}.{alias.name}" for alias in node.names}
            found |= inside if not node.module and inside <= OURS else inside | {start}
    return {name.removeprefix("streamfold.") for name in found & OURS} - {module}


def test_modules_import_down_too() -> None:
    """Inside a package as between packages: there is no cycle of modules."""
    left = {module: _imported_modules(module) for module in MODULES}
    while ends := left.keys() - set().union(*left.values()) | {name for name in left if not left[name] & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in ends}
    assert sorted(left) == [], "a cycle among them"


@each_row("module", MODULES)
def test_packages_are_imported_by_their_init(module: str) -> None:
    """What a folder's `__init__` exports is what other packages may import, and nothing deeper."""
    others = {name[1:] for name in _imports(module) if name.startswith(".")}
    assert [
        name for name in others if name.split(".")[0] != module.split(".")[0] and "." in name and not _is_package(name)
    ] == []


@each_row("module", MODULES)
def test_names_are_written(module: str) -> None:
    """An `__init__` writes the names that it exports; nothing is imported by `*`."""
    imports = [node for node in _nodes(module) if isinstance(node, ast.ImportFrom)]
    assert [node.lineno for node in imports if any(alias.name == "*" for alias in node.names)] == []


@each_row("module", [name for name in MODULES if name.split(".")[0] in PURE])
def test_the_core_is_pure(module: str) -> None:
    """Below the network there is no network, no event loop, no environment and no await."""
    assert not _imports(module) & {"httpx", "anyio", "asyncio", "trio", "socket", "os"}
    if module != "types.tools":  # `Tool.call` awaits the caller's own function, and nothing else
        assert not [node for node in _nodes(module) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]


@each_row("module", [name for name in MODULES if name.split(".")[0] != "config"])
def test_the_environment_is_read_by_the_configuration(module: str) -> None:
    """`os.environ` is read where a profile is made and where its file is found."""
    assert not [node for node in _nodes(module) if isinstance(node, ast.Attribute) and node.attr == "environ"]


@each_row("module", [name for name in MODULES if name.split(".")[0] not in ("net", "recording", "testing")])
def test_few_packages_import_httpx(module: str) -> None:
    """httpx is the business of the network, and of recordings. Providers name it in signatures, and the SDK of MCP
    wants a client of it."""
    named = ("client.provider", "client.endpoint", "sync.provider", "tools.mcp_tools")
    assert not _imports(module) & {"httpx", "httpx2"} or module in named


def test_importing_the_pure_core_brings_no_network() -> None:
    """The decoder can be imported where httpx and anyio are not wanted."""
    code = (
        "import sys, streamfold, streamfold.engine.decoder, streamfold.adapters.chat;"
        "print(sorted({'httpx', 'anyio', 'httpx_sse', 'pydantic'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


UNUSED = """
import sys
from streamfold import Provider
for spec in ("openai:gpt-5-mini", "anthropic:claude-sonnet-5"):
    Provider.from_config(spec).preview("Hello", [{"type": "function", "function": {"name": "f"}}])
names = {name.removeprefix("streamfold.") for name in sys.modules}
unused = {"limits", "stores", "turn_cache", "tools", "testing", "recording", "client.batches", "client.batches",
          "adapters.batches.openai", "adapters.batches.anthropic", "adapters.anthropic.aws_event_stream",
          "answers.partial_values", "types.incremental_json", "requests.schema.openapi"}
print(sorted(names & unused))
"""


def test_what_a_request_does_not_use_is_not_imported() -> None:
    """Limits, stores, batches and other parts are imported when a program uses them."""
    out = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


WITHOUT_SOCKETS = """
import socket, sys

def refuse(event, _):
    if event.startswith("socket."):
        raise AssertionError(event)

sys.addaudithook(refuse)
from streamfold import Provider
provider = Provider.from_config("openai:gpt-5-mini")
provider.chat_stream("Hello", [{"type": "function", "function": {"name": "f"}}])
"""


def test_n5_nothing_is_fetched_before_a_request() -> None:
    """Importing, reading the catalogue and preparing a request open no socket."""
    env = {**os.environ, "OPENAI_API_KEY": "none"}
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_SOCKETS], check=True, env=env)


def test_n8_four_dependencies() -> None:
    """Whoever installs the library gets these and no more; k9: anyio before 4.7 deadlocks on a cancellation."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    needed = project["dependencies"]
    assert sorted(re.split(r"[<>=~!; ]", found)[0] for found in needed) == ["anyio", "httpx", "httpx-sse", "pydantic"]
    assert "anyio>=4.7" in needed


@each_row("module", MODULES)
def test_k5_no_scope_is_held_across_a_yield(module: str) -> None:
    """A generator may be closed by another task, which can't leave the scopes of the first one."""
    scopes = ("CancelScope", "move_on_", "fail_a", "create_task_group")
    generators = [
        node
        for node in _nodes(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("contextmanager" in ast.unparse(found) for found in node.decorator_list)
    ]
    held = [
        ast.unparse(block.items[0])
        for function in generators
        for block in ast.walk(function)
        if isinstance(block, ast.With | ast.AsyncWith)
        and any(name in ast.unparse(item) for item in block.items for name in scopes)
        and any(isinstance(node, ast.Yield | ast.YieldFrom) for line in block.body for node in ast.walk(line))
    ]
    assert held == []


def test_k7_nothing_is_done_when_an_object_dies() -> None:
    """A finalizer that closes a connection would do so on an event loop that is gone."""
    found = [name for name in MODULES for node in _nodes(name) if getattr(node, "name", "") == "__del__"]
    assert found == []


def test_exports() -> None:
    """`__all__` is sorted, and every name in it can be imported."""
    assert streamfold.__all__ == sorted(streamfold.__all__)
    assert all(hasattr(streamfold, name) for name in streamfold.__all__)


def test_public_modules_list_their_names() -> None:
    """A module that users import from lists its names; in others, a name without an underscore is for the project."""
    behind = (name for name in MODULES if "." in name and not _is_package(name))
    names = {
        name: [getattr(node, "targets", [getattr(node, "target", None)])[0] for node in _tree(name).body]
        for name in behind
    }
    assert [name for name, bound in names.items() if any(getattr(each, "id", "") == "__all__" for each in bound)] == []


def test_tables_of_modules_are_complete() -> None:
    """A package whose docstring lists its modules, a row each, lists all of them and no other."""
    tables = {}
    for package in PACKAGES:
        names = re.findall(r"^(\w+)  +\S", ast.get_docstring(_tree(package)) or "", re.M)
        if names:
            tables[package] = names
    assert tables.keys() >= {"requests", "engine", "net", "stores", "limits", "client"}
    folders = {
        package: [path for path in (PACKAGE / package).iterdir() if path.name[0] not in "_."] for package in tables
    }
    modules = {package: sorted(path.stem for path in paths) for package, paths in folders.items()}
    assert {package: sorted(names) for package, names in tables.items()} == modules


@each_row("module", MODULES)
def test_every_module_says_why_it_exists(module: str) -> None:
    """Each module opens with a docstring."""
    assert ast.get_docstring(_tree(module))


REPOSITORY = Path(__file__).parents[2]
SOURCES = {  # of the distributions beside `streamfold`
    path.relative_to(REPOSITORY).as_posix(): path for path in sorted(REPOSITORY.glob("packages/*/src/**/*.py"))
}


@each_row("source", sorted(SOURCES) or ["no package"])
def test_packages_import_public_names_alone(source: str) -> None:
    """A distribution takes from `streamfold` what a public module lists in `__all__`."""
    private = []
    for node in ast.walk(ast.parse(SOURCES[source].read_text("utf-8"))) if source in SOURCES else ():
        names = []
        if isinstance(node, ast.Import):
            names = [(alias.name, "__doc__") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [(str(node.module), alias.name) for alias in node.names]
        for module, name in names:
            if module.partition(".")[0] == "streamfold" and not _is_public(module, name):
                private.append(f"{module}.{name}")
    assert private == []


def _is_public(module: str, name: str) -> bool:
    listed = {"streamfold", *_public_modules()}
    if f"{module}.{name}" in listed or name == "__doc__":
        return module == "streamfold" or module in listed
    return module in listed and name in import_module(module).__all__


@cache
def _public_modules() -> set[str]:
    """The modules in the table of docs/stability.md."""
    rows = re.findall(
        r"^\| (`streamfold.+?) \|", (REPOSITORY / "docs" / "stability.md").read_text("utf-8"), re.MULTILINE
    )
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    return {f"streamfold{name}" if name.startswith(".") else name for name in names}


@each_row(
    "source", sorted(path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("packages/*/src/**/*.py"))
)
def test_packages_import_no_other_package(source: str) -> None:
    """A distribution takes from `streamfold` alone: what two of them need is public there."""
    own = source.split("/")[1]
    nodes = list(ast.walk(ast.parse((REPOSITORY / source).read_text("utf-8"))))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    packages = {name.partition(".")[0] for name in found if name.startswith("streamfold_")}
    assert packages <= {f"streamfold_{own}"}


@each_row("package", sorted(path.name for path in REPOSITORY.glob("packages/*/src/streamfold_*")))
def test_modules_of_packages_import_down(package: str) -> None:
    """As in the library, there is no cycle of modules."""
    files = list(REPOSITORY.glob(f"packages/*/src/{package}/**/*.py"))
    names = {path: path.with_suffix("").parts[path.parts.index(package) :] for path in files}
    modules = {".".join(parts).removesuffix(".__init__"): path for path, parts in names.items()}
    left = {}
    for module, path in modules.items():
        here = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        left[module] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                base = here[: len(here) - node.level + 1] if node.level else []
                start = ".".join([*base, *([node.module] if node.module else [])])
                inside = {f"{start}.{alias.name}" for alias in node.names} & modules.keys()
                left[module] |= inside or ({start} & modules.keys())
        left[module] -= {module}
    while ends := {name for name in left if not left[name] & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in ends}
    assert sorted(left) == [], "a cycle among them"


def test_the_library_imports_no_package() -> None:
    """Distributions beside `streamfold` are found by their entry points."""
    named = {module: [name for name in _imports(module) if name.startswith("streamfold_")] for module in MODULES}
    assert {module: names for module, names in named.items() if names} == {}


TESTS = Path(__file__).parents[1]


@each_row("file", sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")))
def test_what_tests_share_is_in_no_test(file: str) -> None:
    """No module imports from a `test_*.py`, and the corpus is found in one place."""
    text = (TESTS / file).read_text("utf-8")
    assert re.findall(r"^\s*from \S*\btest_\w+ import", text, re.MULTILINE) == []
    assert "STREAMFOLD_CORPUS" not in text or file in ("support/oracles/corpus.py", "project/test_structure.py")


def test_names_of_test_files_are_unique() -> None:
    """pytest imports them by their names alone."""
    packages = TESTS.parent.glob("packages/*/tests/**/test_*.py")
    names = Counter(path.name for path in [*TESTS.rglob("test_*.py"), *packages])
    assert [name for name, count in names.items() if count > 1] == []
