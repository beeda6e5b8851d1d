"""`streamfold doctor` and `streamfold conformance`, run as a user runs them, before a server on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from patients import Patient, PatientServer, serving_patient
from streamfold.adapters.chat import ChatQuirks
from streamfold.cli.app import app
from streamfold.config import config_problems, read_config

KEY = "sk-of-the-doctor-0123456789"


@pytest.fixture
def server() -> Iterator[PatientServer]:
    with serving_patient() as made:
        yield made


def run(*words: str, cwd: Path, command: str = "doctor") -> Any:
    """Runs the command. Nothing that it prints or writes may have the key."""
    before = Path.cwd()
    os.chdir(cwd)
    try:
        done = CliRunner().invoke(app, [command, *words], env={"DOCTOR_KEY": KEY, "COLUMNS": "200"})
    finally:
        os.chdir(before)
    assert KEY not in done.output
    assert not [path for path in cwd.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    return done


@pytest.mark.slow
def test_everything_at_once(server: PatientServer, tmp_path: Path) -> None:
    """One run prints a table, and writes the profile, the report card and the recordings."""
    server.patient = Patient(quirks=ChatQuirks(seed_field="random_seed"))
    options = [
        "--api-key-env",
        "DOCTOR_KEY",
        "--write",
        "streamfold.toml",
        "--html",
        "card.html",
        "--record",
        "answers",
    ]
    done = run(server.url, *options, cwd=tmp_path)
    assert done.exit_code == 0, done.output
    assert "Which field sets the seed?" in done.output
    assert 'quirks.seed_field = "random_seed"' in done.output
    config = read_config(tmp_path / "streamfold.toml")
    assert [problem for problem in config_problems(config) if "set DOCTOR_KEY" not in problem] == []
    assert config.profile("local").quirks == {"seed_field": "random_seed"}
    assert "streamfold doctor" in (tmp_path / "card.html").read_text("utf-8")
    assert len(list((tmp_path / "answers" / "chat").glob("*.sse"))) > 40


class Chatty(Patient):
    """Writes lines into its streams that are no events."""

    def _rewritten(self, event: bytes) -> bytes:
        return b"upstream busy\n\n" + super()._rewritten(event)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patient", "verdict", "code"), [(Chatty(), "fault", 3), (Patient(ends_early=True), "unfaithful", 4)]
)
def test_each_bad_verdict_has_an_exit_code(
    patient: Patient, verdict: str, code: int, server: PatientServer, tmp_path: Path
) -> None:
    """3: something is at fault; 4: an answer isn't what it is reported to be."""
    server.patient = patient
    done = run(server.url, "--json", cwd=tmp_path)
    (card,) = json.loads(done.stdout)["cards"]
    assert verdict in [finding["verdict"] for finding in card["findings"]]
    assert done.exit_code == code


@pytest.mark.thorough
def test_two_versions_are_compared(server: PatientServer, tmp_path: Path) -> None:
    """0: nothing has changed; 1: something has."""
    for name, patient in (("old", Patient()), ("same", Patient()), ("new", Patient(dialect="hermes"))):
        server.patient = patient
        (tmp_path / f"{name}.json").write_text(run(server.url, "--json", cwd=tmp_path).output, "utf-8")
    assert run("--compare", "old.json", "same.json", cwd=tmp_path).exit_code == 0
    done = run("--compare", "old.json", "new.json", cwd=tmp_path)
    assert done.exit_code == 1
    assert "Does a tool call arrive as structured data?" in done.output
    assert run("--compare", "old.json", "nothing.json", cwd=tmp_path).exit_code == 2


def test_a_dry_run_sends_nothing(server: PatientServer, tmp_path: Path) -> None:
    """It prints the requests."""
    done = run(server.url, "--dry-run", "--model", "patient-1", cwd=tmp_path)
    assert done.exit_code == 0
    assert "stream_usage/asked: stream_options.include_usage" in done.output
    assert server.patient.requests == []


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """1: it could not be examined."""
    done = run("http://127.0.0.1:9/v1", "--model", "m", cwd=tmp_path)
    assert done.exit_code == 1
    assert run("htp://nowhere", cwd=tmp_path).exit_code == 2
    assert run(cwd=tmp_path).exit_code == 2


@pytest.mark.thorough
def test_a_table_that_is_there_is_updated(server: PatientServer, tmp_path: Path) -> None:
    """Comments and settings of one's own stay; only what was found is changed."""
    file = tmp_path / "streamfold.toml"
    file.write_text(
        f'# mine\n[providers.main]\nbase_url = "{server.url}/v1" # here\nmodel = "patient-1"\n'
        '[providers.main.quirks]\nseed_field = "seed" # wrong\nempty_turns = false\n\n'
        '[providers.other]\nprofile = "kimi"\n',
        "utf-8",
    )
    server.patient = Patient(quirks=ChatQuirks(seed_field="random_seed"), dialect="hermes")
    done = run("main", "-c", "streamfold.toml", "--write", "streamfold.toml", cwd=tmp_path)
    assert done.exit_code == 4, done.output  # calls come as markup, until the profile has the dialect that reads it
    lines = file.read_text("utf-8").splitlines()
    assert lines[:2] == ["# mine", "[providers.main]"]
    assert f'base_url = "{server.url}/v1" # here' in lines
    assert "empty_turns = false" in lines
    profile = read_config(file).profile("main")
    assert (profile.quirks, profile.dialect) == ({"seed_field": "random_seed", "empty_turns": False}, "hermes")
    assert read_config(file).profile("other").adapter == "kimi"
    again = run("main", "-c", "streamfold.toml", "--write", "streamfold.toml", cwd=tmp_path)
    assert (again.exit_code, file.read_text("utf-8").splitlines()) == (0, lines)


@pytest.mark.slow
def test_conformance(server: PatientServer, tmp_path: Path) -> None:
    """0: all rules are followed; 3: one is broken, and the answer that breaks it is named."""
    done = run(server.url, cwd=tmp_path, command="conformance")
    assert done.exit_code == 0, done.output
    assert "20 of 20 rules are followed" in done.output
    server.patient = Patient(ends_early=True)
    done = run(server.url, cwd=tmp_path, command="conformance")
    assert done.exit_code == 3
    assert "chat/call-arguments" in done.output
    assert "(cut_call/note)" in done.output


@pytest.mark.thorough
def test_the_conformance_suite_for_pytest(server: PatientServer, tmp_path: Path) -> None:
    """Each rule is a test of the server; rules of APIs that it does not speak are skipped."""
    server.patient = Patient(ends_early=True)
    suite = "streamfold_lab.conformance.suite"
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--pyargs", suite]
    done = subprocess.run(
        [sys.executable, *words, "--streamfold-server", server.url],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },  # in a checkout, its conftest.py is above the suite
        capture_output=True,
        encoding="utf-8",
    )
    assert re.search(r"1 failed, 19 passed, \d+ skipped", done.stdout), done.stdout + done.stderr
    assert "chat/call-arguments" in done.stdout


def test_models_are_listed(server: PatientServer, tmp_path: Path) -> None:
    """Names, the limits that the server tells, and whether the catalogue knows them; as JSON a line for each."""
    done = run(server.url + "/v1", "--json", cwd=tmp_path, command="models")
    assert json.loads(done.output) == {
        "provider": "local", "name": "patient-1", "context_tokens": 4096, "max_output_tokens": None, "known": False,
    }  # fmt: skip
    assert "4,096" in run(server.url + "/v1", cwd=tmp_path, command="models").output
    assert run("http://127.0.0.1:9/v1", cwd=tmp_path, command="models").exit_code == 1


def test_config_check_connects(server: PatientServer, tmp_path: Path) -> None:
    """`config check --connect` asks each provider for one token, and says which do not answer."""
    file = tmp_path / "streamfold.toml"
    file.write_text(f'[providers.main]\nbase_url = "{server.url}/v1"\nmodel = "patient-1"\n', "utf-8")
    done = run("check", "-c", "streamfold.toml", "--connect", cwd=tmp_path, command="config")
    assert (done.exit_code, len(server.patient.requests)) == (0, 1), done.output
    assert server.patient.requests[0]["max_tokens"] == 1
    file.write_text(f'[providers.main]\nbase_url = "{server.url}/v1"\nmodel = "nobody"\n', "utf-8")
    done = run("check", "-c", "streamfold.toml", "--connect", cwd=tmp_path, command="config")
    assert done.exit_code == 1
    assert "The model does not exist" in done.output
