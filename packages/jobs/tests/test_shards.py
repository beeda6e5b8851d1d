"""Jobs in shards: the examples for Kubernetes and Slurm are run as they are written, shard by shard."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from folding import DONE, fin, text
from pages import ROOT
from servers import END, STREAM, Connection, answer, framed, serving

EXAMPLES = ROOT / "examples" / "many_machines"
# the server alone runs here
pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs sh"), pytest.mark.one_loop]


async def echo(connection: Connection) -> None:
    """Answers a prompt with itself, and refuses the bad ones."""
    while True:
        prompt = json.loads(await connection.request())["messages"][-1]["content"]
        if "bad" in prompt:
            await connection.send(answer("400 Bad Request", b"{}", "Content-Type: application/json"))
        else:
            await connection.send(STREAM + framed(text(prompt), fin("stop"), DONE) + END)


async def run(words: list[Any], folder: Path, **variables: str) -> str:
    """Runs a program to its end, where `streamfold` is the one of these tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "STREAMFOLD_CONFIG": str(folder / "streamfold.toml"), **variables}
    done = await anyio.run_process([str(word) for word in words], cwd=folder, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def check(folder: Path, script: str, variable: str) -> None:
    """Runs two shards of a script, one of them again afterwards, and merges their ledgers."""
    prompts = ["one", "two", "bad", "four", "five"]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts), "utf-8")
    (folder / "ledgers").mkdir()
    async with serving(echo) as server:
        config = f'[providers.main]\nbase_url = "{server.base_url}"\nmodel = "m"\n'
        (folder / "streamfold.toml").write_text(config, "utf-8")
        for shard in "010":
            await run(["sh", "-c", script], folder, **{variable: shard})
        assert len(server.requests) == len(prompts)
    ledgers = sorted((folder / "ledgers").glob("*.ledger"))
    await run(["streamfold", "batch", "merge", *ledgers, "-o", "answers.jsonl"], folder)
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text("utf-8").splitlines()]
    assert [line.get("text") for line in lines] == ["one", "two", None, "four", "five"]
    assert [line["id"] for line in lines] == list("01234")


@pytest.mark.slow
async def test_an_indexed_job_of_kubernetes(tmp_path: Path) -> None:
    """Each index asks its rows once, a container that is started again asks nothing, and errors are no failure."""
    yaml = pytest.importorskip("yaml")
    config, job = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text("utf-8"))
    assert 'profile = "openai"' in config["data"]["streamfold.toml"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (spec["completionMode"], spec["completions"], pod["restartPolicy"]) == ("Indexed", 16, "OnFailure")
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    (script,) = container["args"]
    assert script.count("$JOB_COMPLETION_INDEX/16") == 1
    (tmp_path / "scratch").mkdir()
    for here, there in (
        ("/data/", f"{tmp_path}/"),
        ("/scratch/", f"{tmp_path}/scratch/$JOB_COMPLETION_INDEX-"),
        ("/16", "/2"),
    ):
        script = script.replace(here, there)
    await check(tmp_path, script, "JOB_COMPLETION_INDEX")


@pytest.mark.thorough
async def test_an_array_job_of_slurm(tmp_path: Path) -> None:
    """Each task asks its rows once, and finds its ledger again on another node."""
    script = (EXAMPLES / "slurm.sh").read_text("utf-8")
    assert script.count('"$shard/16"') == 1
    script = script.replace("/16", "/2").replace("${TMPDIR:-/tmp}", f"$(mktemp -d {tmp_path}/node.XXXX)")
    await check(tmp_path, script, "SLURM_ARRAY_TASK_ID")
