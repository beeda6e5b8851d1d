"""Outside judges: the compliance tests of other people, against the gateway in front of a server. `nox -s judges`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patients import Patient, serving_patient
from served_apps import serving_app
from streamfold import Provider
from streamfold_gateway import gateway

# Its schema requires `citations` in each text; Anthropic itself leaves the member out where there are none.
NO_CITATIONS = re.compile(
    r"content\.\d+: \{'type': 'text', 'text': [^{}]*\} is not valid under any of the given schemas", re.S
)
LLM_COMPLY = shutil.which("llm-comply", path=str(Path(sys.executable).parent))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LLM_COMPLY is None, reason="llm-comply is not installed: nox -s judges"),
]


class Helpful(Patient):
    """Calls the first tool that it is offered, whatever the question."""

    def _calls(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        calls = super()._calls(body)
        if calls or not body.get("tools") or body["messages"][-1]["role"] == "tool":
            return calls
        function = body["tools"][0]["function"]
        return [(function["name"], json.dumps(dict.fromkeys(function["parameters"].get("properties", {}), "Paris")))]


@pytest.mark.parametrize(
    ("form", "path", "passed"),
    [
        ("openai-chat", "/v1", 8),
        ("open-responses", "/v1", 12),
        ("anthropic", "/v1", 8),
        ("google-genai", "", 9),
        ("google-interactions", "", 9),
    ],
)
def test_llm_comply(form: str, path: str, passed: int) -> None:
    """Every test of the API passes, by the schemas that its maker publishes; some are for certain names of models."""
    with serving_patient() as server:
        server.patient = Helpful(thinks=form == "google-interactions")  # a test of that API wants to see it
        app = gateway({"main": Provider.from_config({"base_url": f"{server.url}/v1", "model": "patient-1"})})
        with serving_app(app) as url:
            command = [str(LLM_COMPLY), "--format", form, "-u", url + path, "-k", "x", "-m", "main", "--json"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    results = {each["id"]: each for each in json.loads(said.stdout)["results"]}
    problems = {
        name: [error for error in each.get("errors", ()) if not NO_CITATIONS.fullmatch(error)]
        for name, each in results.items()
        if each["status"] == "failed"
    }
    assert {name: errors for name, errors in problems.items() if errors} == {}
    assert len(problems) + sum(each["status"] == "passed" for each in results.values()) >= passed
