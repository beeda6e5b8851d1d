"""`streamfold config` and the default provider."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from commands import Done
from commands import run as run_in
from streamfold.config.catalogue import provider_files

MAIN = """\
default = "main"
[providers.main]
profile = "kimi"
model = "kimi-k2.6"
api_key_env = "MY_KEY"
headers.X-Own = "sk-canary"
[providers.local]
base_url = "http://me:sk-canary@127.0.0.1:9/v1"
model = "qwen3"
max_retries = 0
fallback = ["main"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "streamfold.toml").write_text(MAIN, "utf-8")
    return tmp_path


def run(folder: Path, *words: str, **variables: str) -> Done:
    done = run_in(folder, *words, **variables)
    assert "canary" not in done.stdout + done.stderr
    return done


def test_show_has_every_value_with_its_source(folder: Path) -> None:
    """Secrets are "set (VARIABLE)" or "not set"; a default of the environment is named by its variable."""
    done = run(folder, "config", "show", MY_KEY="sk-canary")
    assert done.returncode == 0, done.stderr
    lines = [line.split("  # ") for line in done.stdout.splitlines()]
    shown = {tuple(map(str.strip, line)) for line in lines}
    assert shown >= {
        ('default = "main"', "streamfold.toml:1"),
        ("[providers.main]",),
        ('adapter = "kimi"', "catalogue kimi.toml:2"),
        ('model = "kimi-k2.6"', "streamfold.toml:4"),
        ("api_key = set (MY_KEY)", "streamfold.toml:5"),
        ("headers.X-Own = set", "streamfold.toml:6"),
        ("max_retries = 2", "default of streamfold"),
        ("[providers.local]",),
        ('base_url = "http://***@127.0.0.1:9/v1"', "streamfold.toml:8"),
        ('fallback = ["main"]', "streamfold.toml:11"),
    }
    assert "api_key = not set (MY_KEY)" in run(folder, "config", "show", "main").stdout
    assert 'default = "kimi"  # STREAMFOLD_PROVIDER' in run(folder, "config", "show", STREAMFOLD_PROVIDER="kimi").stdout


def test_show_one_as_json(folder: Path) -> None:
    done = run(folder, "config", "show", "openai:gpt-5-mini", "--json")
    values = [json.loads(line) for line in done.stdout.splitlines()]
    assert {value["provider"] for value in values} == {"openai:gpt-5-mini"}
    assert {
        "provider": "openai:gpt-5-mini",
        "key": "model",
        "shown": '"gpt-5-mini"',
        "source": "the requested name",
    } in (values)


def test_check(folder: Path) -> None:
    """All problems, one on a line, and exit code 1; or one line that all is well."""
    done = run(folder, "config", "check", MY_KEY="sk-canary")
    assert (done.returncode, done.stdout) == (0, "streamfold.toml: no problems, 2 providers\n")
    (folder / "bad.toml").write_text(MAIN + 'dialect = "hermess"\n[providers.x]\nbase_urll = "sk-canary"\n', "utf-8")
    done = run(folder, "config", "check", "--config", "bad.toml")
    assert done.returncode == 1
    assert [line.partition(": unknown")[0] for line in done.stdout.splitlines()] == [
        "bad.toml:5: providers.main.api_key_env: no API key: set MY_KEY",
        "bad.toml:12: providers.local.dialect",
        "bad.toml:14: providers.x.base_urll",
    ]
    (folder / "bad.toml").write_text("a = sk-canary", "utf-8")
    done = run(folder, "config", "check", STREAMFOLD_CONFIG="bad.toml")
    assert (done.returncode, done.stdout) == (1, "bad.toml:1: not TOML: Invalid value in column 5\n")


def test_check_as_json(folder: Path) -> None:
    """One object: the file, its providers, and the problems."""
    done = run(folder, "config", "check", "--json", MY_KEY="sk-canary")
    assert (done.returncode, json.loads(done.stdout)) == (
        0, {"file": "streamfold.toml", "providers": ["main", "local"], "problems": [], "notes": []},
    )  # fmt: skip
    done = run(folder, "config", "check", "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert (done.returncode, problem.partition(": providers")[0]) == (1, "streamfold.toml:5")
    done = run(folder, "config", "check", "--json", "--config", "nope.toml")
    made = json.loads(done.stdout)
    assert (done.returncode, made["file"], len(made["problems"])) == (1, None, 1)


def test_check_of_budgets(folder: Path) -> None:
    """A limit of money needs prices, and is noted if it is counted in the process alone."""
    limited = "max_cost_per_day = 5\n"
    own = MAIN + f'[providers.priced]\nbase_url = "http://x/v1"\nmodel = "m"\n{limited}'
    (folder / "budget.toml").write_text(own, "utf-8")
    done = run(folder, "config", "check", "--json", "--config", "budget.toml", MY_KEY="k")
    place = f"budget.toml:{own.count(chr(10))}: providers.priced.max_cost_per_day"
    made = json.loads(done.stdout)
    assert made["problems"] == [
        f"{place}: the prices of priced are unknown: write prices = {{...}} into the provider's table"
    ]
    (folder / "budget.toml").write_text(own + "prices = { input = 1, output = 2 }\n", "utf-8")
    done = run(folder, "config", "check", "--config", "budget.toml", MY_KEY="k")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "budget.toml: no problems, 3 providers",
            "these stores lose their content when the process ends: rate_limits.store (use sqlite:///PATH to keep it)",
        ],
    )
    keys = '[gateway.keys.x]\nkey_env = "MY_KEY"\nmodels = ["quick"]\n' + limited
    for alias, unpriced in (("main", ["main"]), ("priced", [])):
        aliases = f'[gateway.aliases]\nquick = "{alias}"\n'
        text = own + "prices = { input = 1, output = 2 }\n" + aliases + keys
        (folder / "budget.toml").write_text(text.replace("kimi-k2.6", "unpriced"), "utf-8")
        done = run(folder, "config", "check", "--json", "--config", "budget.toml", MY_KEY="k")
        problems = json.loads(done.stdout)["problems"]
        assert [problem.partition("prices of ")[2].partition(" are")[0] for problem in problems] == unpriced


def test_check_without_a_file(tmp_path: Path) -> None:
    done = run(tmp_path, "config", "check")
    assert done.returncode == 0
    assert done.stdout.startswith("no file: only the catalogue is used")
    done = run(tmp_path, "config", "check", STREAMFOLD_PROVIDER="kimmi")
    assert done.returncode == 1
    assert done.stdout.startswith("STREAMFOLD_PROVIDER: unknown provider 'kimmi' (did you mean 'kimi'?)")


def test_path(folder: Path) -> None:
    """Which files were looked for, and which one is used."""
    user = folder / "user" / "streamfold" / "streamfold.toml"
    work = f"{folder / 'streamfold.toml'}  (the working directory)"
    assert run(folder, "config", "path").stdout.splitlines() == [
        f"used       {work}",
        f"not there  {user}  (the user's directory)",
    ]
    user.parent.mkdir(parents=True)
    user.write_text("", "utf-8")
    assert run(folder, "config", "path").stdout.splitlines()[1] == f"shadowed   {user}  (the user's directory)"
    done = run(folder, "config", "path", STREAMFOLD_CONFIG="nope.toml")
    assert (done.returncode, done.stdout) == (1, f"not there  {folder / 'nope.toml'}  (STREAMFOLD_CONFIG)\n")


def test_chat_uses_the_default(folder: Path) -> None:
    """Without -p the default counts, and STREAMFOLD_PROVIDER before it."""
    done = run(folder, "chat", "Hello")
    assert (done.returncode, done.stderr) == (2, 'error: no API key for "main": set MY_KEY\n')
    done = run(folder, "chat", "Hello", STREAMFOLD_PROVIDER="kimi:kimi-k2.6")
    assert 'no API key for "kimi"' in done.stderr
    done = run(folder, "chat", "Hello", "-p", "local", STREAMFOLD_PROVIDER="kimi:kimi-k2.6")
    assert done.returncode == 1
    assert "local" in done.stderr
    done = run(folder, "chat", "Hello", "--config", os.devnull)
    assert done.returncode == 2
    assert "no provider was named: pass one (commands: -p kimi:kimi-k2.6), write default = " in done.stderr


def test_providers_lists_the_file_too(folder: Path) -> None:
    (folder / "streamfold.toml").write_text(MAIN.replace("providers.local", "providers.kimi"), "utf-8")
    done = run(folder, "providers", "--json", MY_KEY="sk-canary")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["name"] for row in rows] == ["main", "kimi", *(name for name in provider_files() if name != "kimi")]
    assert rows[0] == {
        "name": "main",
        "adapter": "kimi",
        "base_url": "https://api.moonshot.ai/v1",
        "keys": {"MY_KEY": True},
        "auth": "key",
        "can": ["tools", "parallel calls", "no files", "no audio"],
        "evidence": "documented",
        "source": "streamfold.toml",
    }
    assert rows[2]["source"] == "catalogue"
    assert "set (MY_KEY)" in run(folder, "providers", MY_KEY="sk-canary").stdout


def test_providers_tells_what_one_can(folder: Path) -> None:
    """Of a model each capability with its line; of a provider without a model those that are named, one on a row."""
    (folder / "streamfold.toml").write_text(MAIN + "capabilities.images = 'no'\n", "utf-8")
    done = run(folder, "providers", "local")
    assert "local:qwen3" in done.stdout
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert ["images", "no", "streamfold.toml:12"] in [[cell.strip() for cell in row] for row in rows]
    assert ["tools", "unknown", "unknown source"] in [[cell.strip() for cell in row] for row in rows]
    (row,) = [json.loads(line) for line in run(folder, "providers", "main:kimi-k3", "--json").stdout.splitlines()]
    assert (row["name"], row["model"], row["capabilities"]["images"]) == ("main", "kimi-k3", "yes")
    rows = [json.loads(line) for line in run(folder, "providers", "deepseek", "--json").stdout.splitlines()]
    assert {row["model"]: row["capabilities"]["images"] for row in rows}.items() >= {
        (None, "unknown"),
        ("deepseek-flash", "yes"),
        ("deepseek-v4-pro", "no"),
    }
    table = run(folder, "providers", "deepseek").stdout
    assert all(word in table for word in ("(any)", "deepseek-flash", "structured_output"))
    done = run(folder, "providers", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown provider 'nope'")


def test_show_has_the_capabilities_of_the_model(folder: Path) -> None:
    shown = run(folder, "config", "show", "main").stdout
    assert 'capabilities.images = "yes"  ' in shown
    assert "# families.toml:" in shown.partition("capabilities.images")[2].splitlines()[0]
    assert 'capabilities.images = "no"' in run(folder, "config", "show", "main:moonshot-v1-8k").stdout
