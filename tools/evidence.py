"""Writes `docs/evidence.md`: what is behind the promises, in figures, each with the command that makes it.

    STREAMFOLD_CORPUS=FOLDER python tools/evidence.py     all of the page
    python tools/evidence.py                              what needs no corpus; the rest stays
    python tools/evidence.py --run agents                 runs that session, and writes its result into evidence.toml

Deviations are counted over events that are split and parsed here, not by streamfold's readers. A stream whose framing
was put back by the project that recorded it counts for none that lies in the framing, and one that may have been edited
by hand counts for none at all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from streamfold import Reply, StreamDecoder, StreamError

__all__ = ["PAGE", "SECTIONS", "page", "recorded_streams"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence.md"
RUNS = Path(__file__).with_suffix(".toml")
MANIFESTS = ("manifest.json", "manifest-anthropic.json", "gemini-manifest.json", "hosted-manifest.json")
APIS = {
    "chat": "Chat Completions",
    "responses": "Responses",
    "anthropic": "Messages",
    "gemini": "Gemini",
    "interactions": "Interactions",
}
DOCUMENTS = {
    "chat": "https://platform.openai.com/docs/api-reference/chat-streaming",
    "responses": "https://platform.openai.com/docs/api-reference/responses-streaming",
    "anthropic": "https://docs.anthropic.com/en/docs/build-with-claude/streaming",
    "gemini": "https://ai.google.dev/api/generate-content",
}


@dataclass
class Stream:
    """A recorded answer, split into events.

    Attributes:
        events: the name of each event ("" if none was sent) and its parsed data; None: `[DONE]`, or no JSON.
        done: `[DONE]` was sent.
        unknown: fields that are none of server-sent events.
    """

    api: str
    provider: str
    reframed: bool
    events: list[tuple[str, Any]] = field(default_factory=list)
    done: bool = False
    unknown: list[str] = field(default_factory=list)

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [data for _, data in self.events if isinstance(data, dict)]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """Returns the events of this type, in order."""
        return [data for data in self.payloads if data.get("type") == kind]


def split(body: bytes, stream: Stream) -> Stream:
    """Fills in the events of a body by the rules of the WHATWG; a JSON array is a list of events."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    if text.lstrip().startswith("["):
        stream.events = [("", data) for data in json.loads(text)]
        return stream
    name, lines = "", list[str]()
    for line in [*re.split(r"\r\n|\n|\r", text), ""]:  # the last blank line may be missing
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if lines:
                _add(stream, name, "\n".join(lines))
            name, lines = "", []
        elif key == "data":
            lines.append(value)
        elif key == "event":
            name = value
        elif key not in ("", "id", "retry"):
            stream.unknown.append(key)
    return stream


def _add(stream: Stream, name: str, data: str) -> None:
    if data.strip() == "[DONE]":
        stream.done = True
        return
    try:
        stream.events.append((name, json.loads(data)))
    except ValueError:
        stream.events.append((name, None))


# What servers do. Each function yields the kinds of deviations of one stream, by their keys in KINDS.

KINDS: dict[str, tuple[str, str]] = {
    "chat-done": ("chat", "ends without `[DONE]`"),
    "chat-no-finish": ("chat", "has no finish reason at all"),
    "chat-finish-twice": ("chat", "sends the finish reason more than once"),
    "chat-finish-changes": ("chat", "changes the finish reason"),
    "chat-after-finish": ("chat", "sends text, reasoning or tool calls after the finish reason"),
    "chat-stop-with-calls": ("chat", "ends with `stop`, although it has tool calls"),
    "chat-no-index": ("chat", "sends tool calls without an index"),
    "chat-first-index": ("chat", "numbers tool calls from -1 or from 1"),
    "chat-no-call-id": ("chat", "begins a tool call without an id or with an empty id"),
    "chat-repeated": ("chat", "repeats a tool call's id, name or type in later fragments, or sends them empty"),
    "chat-null-arguments": ("chat", "sends null as arguments, or no arguments"),
    "chat-parts": ("chat", "sends `content` as a list of parts"),
    "chat-message": ("chat", "sends the complete `message` next to the `delta`"),
    "chat-usage-twice": ("chat", "sends usage in several chunks"),
    "chat-usage-place": ("chat", "sends usage in a chunk with choices, or in a field other than `usage`"),
    "chat-object": ("chat", "has no `object`, or an `object` other than `chat.completion.chunk`"),
    "chat-ids": ("chat", "changes the response id, or sends no response id or an empty one"),
    "chat-error": ("chat", "sends an error inside a response with status 200"),
    "chat-field": ("chat", "has a line with a field that the SSE standard doesn't define"),
    "responses-event": ("responses", "has no `event:` lines"),
    "responses-done": ("responses", "ends with `[DONE]`"),
    "responses-sequence": ("responses", "has events without `sequence_number`"),
    "responses-item-id": ("responses", "uses different ids for the same item in its events"),
    "responses-only-done": ("responses", "sends arguments only when the tool call is complete"),
    "responses-error": ("responses", "sends an `error` event whose fields are one level deeper"),
    "responses-usage": ("responses", "ends without usage"),
    "messages-block": ("anthropic", "never sends `content_block_stop` for a content block"),
    "messages-delta": ("anthropic", "has no `message_delta`, and therefore no stop reason"),
    "messages-order": ("anthropic", "sends the stop reason before its last block has ended"),
    "messages-after": ("anthropic", "sends events after `message_stop`"),
    "messages-filled": ("anthropic", "sends content in the first event of a message or a tool call"),
    "gemini-no-finish": ("gemini", "has no finish reason at all"),
    "gemini-finish-twice": ("gemini", "sends the finish reason more than once"),
    "gemini-finish-changes": ("gemini", "changes the finish reason"),
    "gemini-number": ("gemini", "sends an enum as a number"),
    "gemini-error": ("gemini", "sends an error as plain JSON after its events"),
}
# What the project that recorded a stream may have changed: how it is framed, and how it ends.
FRAMING = {"chat-done", "chat-field", "responses-event", "responses-done", "messages-delta", "gemini-error"}
EDITED = ("FirebaseExtended/vertexai-sdk-test-data",)  # its authors changed some of their recordings by hand


def _chat(stream: Stream) -> Iterator[str]:
    error = [data for data in stream.payloads if data.get("error")]
    if error:
        yield "chat-error"
    if not stream.done:
        yield "chat-done"
    if stream.unknown:
        yield "chat-field"
    reasons, calls, after = list[str](), False, False
    seen: dict[Any, int] = {}
    usages = [data for data in stream.payloads if data.get("usage")]
    if len(usages) > 1:
        yield "chat-usage-twice"
    if any(data.get("choices") for data in usages) or any(
        "usage" in (data.get("x_groq") or ()) for data in stream.payloads
    ):
        yield "chat-usage-place"
    chunks = [data for data in stream.payloads if "choices" in data]
    if any(chunk.get("object") != "chat.completion.chunk" for chunk in chunks):
        yield "chat-object"
    if len({chunk.get("id") for chunk in chunks}) > 1 or not all(chunk.get("id") for chunk in chunks):
        yield "chat-ids"
    for chunk in chunks:
        for choice in chunk["choices"] or ():
            if choice.get("index"):
                continue  # another answer to the same request
            delta = choice.get("delta") or {}
            fragments = delta.get("tool_calls") or ()
            if "message" in choice:
                yield "chat-message"
            if isinstance(delta.get("content"), list):
                yield "chat-parts"
            if reasons and (
                delta.get("content") or fragments or delta.get("reasoning") or delta.get("reasoning_content")
            ):
                after = True
            if choice.get("finish_reason"):
                reasons.append(choice["finish_reason"])
            for fragment in fragments:
                calls = True
                yield from _fragment(fragment, seen)
    if min((index for index in seen if index is not None), default=0) != 0:
        yield "chat-first-index"
    if after:
        yield "chat-after-finish"
    if not reasons and not error:
        yield "chat-no-finish"
    if len(reasons) > 1:
        yield "chat-finish-twice"
    if len(set(reasons)) > 1:
        yield "chat-finish-changes"
    if calls and reasons and reasons[-1] == "stop":
        yield "chat-stop-with-calls"


def _fragment(fragment: dict[str, Any], seen: dict[Any, int]) -> Iterator[str]:
    """A fragment of a call; `seen` counts those with the same index."""
    index, function = fragment.get("index"), fragment.get("function") or {}
    if index is None:
        yield "chat-no-index"
    first = index is None or index not in seen
    seen[index] = seen.get(index, 0) + 1
    if first and not fragment.get("id"):
        yield "chat-no-call-id"
    if not first and ({"id", "type"} & fragment.keys() or "name" in function):
        yield "chat-repeated"
    if function.get("arguments") is None:
        yield "chat-null-arguments"


def _responses(stream: Stream) -> Iterator[str]:
    if stream.events and not any(name for name, _ in stream.events):
        yield "responses-event"
    if stream.done:
        yield "responses-done"
    events = [data for data in stream.payloads if data.get("type") not in ("error", "keepalive")]
    if not all("sequence_number" in data for data in events):
        yield "responses-sequence"
    ids = defaultdict[Any, set[Any]](set)
    for data in events:
        if "output_index" in data and (item := data.get("item_id") or (data.get("item") or {}).get("id")):
            ids[data["output_index"]].add(item)
    if any(len(found) > 1 for found in ids.values()):
        yield "responses-item-id"
    begun = {data.get("output_index") for data in stream.of_type("response.function_call_arguments.delta")}
    done = stream.of_type("response.function_call_arguments.done")
    if any(data.get("output_index") not in begun and data.get("arguments") not in ("", "{}") for data in done):
        yield "responses-only-done"
    if any(isinstance(data.get("error"), dict) for data in stream.of_type("error")):
        yield "responses-error"
    ends = [data for kind in ("completed", "incomplete") for data in stream.of_type(f"response.{kind}")]
    if any(not data["response"].get("usage") for data in ends):
        yield "responses-usage"


def _messages(stream: Stream) -> Iterator[str]:
    kinds = [data.get("type") for data in stream.payloads]
    if not stream.payloads or kinds[0] == "error":
        return
    opened = {data["index"] for data in stream.of_type("content_block_start")}
    closed = {data["index"] for data in stream.of_type("content_block_stop")}
    if "error" not in kinds and opened - closed:
        yield "messages-block"
    if "error" not in kinds and "message_stop" in kinds and "message_delta" not in kinds:
        yield "messages-delta"
    stops = [at for at, kind in enumerate(kinds) if kind == "content_block_stop"]
    if "message_delta" in kinds and stops and kinds.index("message_delta") < stops[-1]:
        yield "messages-order"
    if "message_stop" in kinds and kinds[-1] != "message_stop":
        yield "messages-after"
    starts = [data["message"] for data in stream.of_type("message_start")]
    blocks = [data["content_block"] for data in stream.of_type("content_block_start")]
    if any(message.get("content") or message.get("stop_reason") for message in starts) or any(
        block["type"] == "tool_use" and block.get("input") for block in blocks
    ):
        yield "messages-filled"


def _gemini(stream: Stream) -> Iterator[str]:
    if any("error" in key for key in stream.unknown):
        yield "gemini-error"
        return
    candidates = [one for data in stream.payloads for one in data.get("candidates") or ()]
    reasons = [one["finishReason"] for one in candidates if one.get("finishReason")]
    blocked = any((data.get("promptFeedback") or {}).get("blockReason") for data in stream.payloads)
    if candidates and not reasons and not blocked:
        yield "gemini-no-finish"
    if len(reasons) > 1:
        yield "gemini-finish-twice"
    if len(set(reasons)) > 1:
        yield "gemini-finish-changes"
    if any(isinstance(reason, int) for reason in reasons):
        yield "gemini-number"


_FINDERS: dict[str, Callable[[Stream], Iterator[str]]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
}


@dataclass
class Recorded:
    """One stream of the corpus: who sent it, what it has of KINDS, and whether it is read as it must be."""

    api: str
    provider: str
    model: str
    repo: str
    deviations: set[str]
    read: bool


@cache
def recorded_streams(folder: Path) -> list[Recorded]:
    """Reads every stream of a corpus whose API has an adapter."""
    found = []
    for name in MANIFESTS:
        entries = json.loads((folder / name).read_text("utf-8"))
        for entry in entries if isinstance(entries, list) else entries["cases"]:
            api = entry.get("wire", "anthropic")
            if api not in APIS:
                continue  # an API for which there is no adapter
            path = folder / entry["output"]
            body = path.read_bytes()
            stream = split(body, Stream(api, entry["provider"], entry["reframed"]))
            deviations = (
                set(_FINDERS[api](stream)) if api in _FINDERS else set() - (FRAMING if stream.reframed else set())
            )
            if entry["repo"] in EDITED or "by hand" in entry.get("origin", ""):
                deviations = set()
            expected = json.loads(path.with_suffix(".expected.json").read_text("utf-8"))
            provider = {"gemini": "aistudio"}.get(entry["provider"], entry["provider"])
            read = is_read(api, body, expected)
            found.append(Recorded(api, provider, entry["model"], entry["repo"], deviations, read))
    return found


def is_read(api: str, body: bytes, expected: dict[str, Any]) -> bool:
    """Returns whether streamfold reads the text, the reasoning and the calls that were derived from a body.

    `tests/engine/test_corpus.py` compares all of an answer, however its bytes are cut.
    """
    decoder, failed = StreamDecoder(api), False
    try:
        decoder.feed(body)
        decoder.close()
        reply = decoder.reply
    except StreamError as error:
        reply, failed = error.partial or Reply(), True
    calls = [(call.name, call.arguments) for call in reply.tool_calls if call.kind == "function"]
    wanted = [(call["name"], call["arguments"]) for call in expected["tool_calls"]]
    if failed or reply.finish_reason in ("length", "content_filter"):
        wanted = []  # delivered by no reader that keeps the first promise
    broken = [("_error" in (arguments or ())) for _, arguments in wanted]
    same = len(calls) == len(wanted) and all(
        name == other and (value == right or bad)
        for (name, value), (other, right), bad in zip(calls, wanted, broken, strict=True)
    )
    return same and reply.text == (expected["text"] or "") and reply.reasoning == (expected.get("reasoning") or "")


def _table(head: str, rows: Iterable[Iterable[object]]) -> str:
    columns = head.split(" | ")
    lines = [f"| {head} |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def corpus_section(folder: Path) -> str:
    """The part of the page that is made from the corpus."""
    streams = recorded_streams(folder)
    groups = defaultdict[tuple[str, str], list[Recorded]](list)
    for stream in streams:
        groups[stream.api, stream.provider].append(stream)
    order = sorted(groups, key=lambda key: (list(APIS).index(key[0]), -len(groups[key]), key[1]))
    rows = []
    for key in order:
        group = groups[key]
        kinds = Counter(kind for stream in group for kind in stream.deviations)
        rows.append(
            [
                APIS[key[0]],
                key[1],
                len({stream.model for stream in group}),
                len(group),
                sum(stream.read for stream in group),
                sum(bool(stream.deviations) for stream in group),
                len(kinds),
            ]
        )
    total = [len({stream.model for stream in streams}), len(streams), sum(stream.read for stream in streams)]
    total += [sum(bool(stream.deviations) for stream in streams), len({k for s in streams for k in s.deviations})]
    rows.append(["**all**", len({stream.provider for stream in streams}), *total])
    by_provider = _table(
        "API | provider | models | streams | read correctly | with deviations | kinds of deviations", rows
    )
    kinds_table = []
    for kind, (api, words) in KINDS.items():
        having = [stream for stream in streams if kind in stream.deviations]
        names = Counter(stream.provider for stream in having)
        listed = ", ".join(f"{name} {count}" for name, count in sorted(names.items(), key=lambda x: (-x[1], x[0])))
        if having:
            kinds_table.append([f"[{APIS[api]}]({DOCUMENTS[api]})", words, len(having), listed])
    by_kind = _table("API | deviation: the stream ... | streams | providers", kinds_table)
    projects, providers = len({stream.repo for stream in streams}), len({stream.provider for stream in streams})
    return f"""\
The corpus contains {len(streams)} streams that {projects} public projects recorded from {providers} providers and
servers. *Read correctly* means that streamfold's text, reasoning and tool calls equal those of an independent parser.
Tests also split each stream in many ways, and compare the complete answer.

{by_provider}

### What servers do differently from the documentation

A stream can have several deviations. Most deviations are harmless. Others cause clients to lose tool calls, token
counts or the end of an answer. The recordings are from 2024 to 2026, so some servers may have been corrected since.
Providers with more recordings, or with models of several companies, have more kinds of deviations. The number after a
provider's name is the number of its streams with this deviation.

{by_kind}"""


# What the tests make by themselves: the file, and what its cases are.
GENERATORS = {
    "tests/promises/test_calls_once.py": "answers of each API that break off at a random position",
    "tests/promises/test_nothing_lost.py": "complete answers of each API; streamfold's reply must contain every part",
    "tests/engine/test_call_streams.py": "tool calls with correct and wrong indices, in Chat Completions and Responses",
    "tests/engine/test_fuzz.py": "damaged recordings, random bytes, random JSON",
    "tests/engine/test_shown.py": "texts with tool-call markup, split at random positions",
    "tests/generated/test_partial_generated.py": "partial values of structured outputs, of every length",
    "tests/generated/test_refusals_generated.py": "requests after a server has rejected a conversation or a schema",
    "tests/generated/test_special_tokens_generated.py": "user messages that contain special tokens of models",
    "tests/limits/test_model.py": "operations of rate limiters on one store, compared with a simpler implementation",
    "packages/gateway/tests/test_gateway_answers_generated.py": "answers that the gateway converts between APIs",
    "packages/repair/tests/test_fuzz_writers.py": "answers that `RepairTransport` forwards or rewrites",
    "packages/repair/tests/test_mixed_items.py": "answers with many kinds of content, rewritten by `RepairTransport`",
    "packages/repair/tests/test_made_hosted.py": "answers with tools that a server ran, rewritten by `RepairTransport`",
    "packages/integrations/tests/test_conversations_apart.py": "several users' chats through the AI SDK and AG-UI",
}
_CASES = re.compile(r"(?:range\(|max_examples=|CASES = |, )(?:scale\.)?(pick|examples)\(([\d_]+)(?:, ([\d_]+))?")


def generators_section() -> str:
    """How many cases the tests make by themselves, from the figures in their files."""
    rows = []
    for name, words in GENERATORS.items():
        quick = full = 0
        for how, most, least in _CASES.findall((ROOT / name).read_text("utf-8")):
            full += int(most)
            quick += int(least) if how == "pick" else min(int(most), max(15, int(most) // 8))
        rows.append([words, f"`{name}`", f"{quick:,}", f"{full:,}"])
    return _table("cases | test | `pytest` | `pytest --thorough`", rows)


def counts_section() -> str:
    """Written tests that can be counted by their tables."""
    fixtures = Counter(
        tomllib.loads(file.read_text("utf-8"))["source"] for file in sorted(ROOT.glob("fixtures/*/*.toml"))
    )
    bugs = (ROOT / "docs" / "bugs.md").read_text("utf-8")
    entries = [row for row in bugs.splitlines() if re.match(r"\| [A-Z]+\d+ ", row)]
    reported = [row for row in entries if "https://" in row]
    failures = re.findall(r"^\| .*\btest_\w+\.py", (ROOT / "docs" / "failures.md").read_text("utf-8"), re.M)
    rows = [
        [
            "fixtures: files with a recorded or written answer",
            "{recorded} recorded, {documented} from API documentation, {synthesised} for one behaviour each".format(
                **fixtures
            ),
            "`nox -s fixtures`",
        ],
        [
            "[bugs of other clients and servers](bugs.md)",
            f"{len(entries)} bugs, each with tests; {len(reported)} of them were reported publicly",
            "`pytest tests/project/test_bugs.py`",
        ],
        [
            "[kinds of failures](failures.md)",
            f"{len(failures)} rows, each with a test",
            "`pytest tests/project/test_failures.py`",
        ],
    ]
    return _table("what | figures | command", rows)


# What runs other people's programs, or kills ours: the command, and what it shows.
KILLS = [
    "packages/gateway/tests/test_kept_killed.py",
    "packages/gateway/tests/test_store_faults.py",
    "packages/gateway/tests/test_workers.py",
    "packages/jobs/tests/test_batch_command.py",
    "packages/jobs/tests/test_provider_batch_command.py",
    "tests/stores/test_journals.py",
    "tests/testing/test_record.py",
]
COMMANDS: dict[str, tuple[list[str], str]] = {
    "peers": (
        ["nox", "-s", "peers"],
        "test suites of SDKs and of projects that use SDKs, with and without `RepairTransport`",
    ),
    "judges": (["nox", "-s", "judges"], "compliance tests of other projects: llm-comply, LangChain's standard tests"),
    "integrations": (
        ["nox", "-s", "integrations"],
        "LangChain, pydantic-ai and a Jupyter kernel with streamfold's models",
    ),
    "clients": (["nox", "-s", "clients"], "SDKs for Python and Node, and curl, as clients of the gateway"),
    "agents": (["nox", "-s", "agents"], "Claude Code, Codex, Gemini CLI and opencode as clients of the gateway"),
    "interfaces": (
        ["nox", "-s", "interfaces"],
        "three versions of the AI SDK, and AG-UI's client, reading streams that streamfold writes",
    ),
    "servers": (
        ["nox", "-s", "servers"],
        "streamfold as client of llama.cpp, LiteLLM's proxy, aimock and reverse proxies",
    ),
    "engines": (["nox", "-s", "engines"], "jobs on Ray Data and Daft whose processes are killed"),
    "kills": (
        ["python", "-m", "pytest", "-q", "-m", "slow or not slow", *KILLS],
        "gateways, workers, jobs, stores and recorders that are killed with SIGKILL and restarted",
    ),
}


def runs_section() -> str:
    """What the last recorded run of each command said."""
    runs = tomllib.loads(RUNS.read_text("utf-8")) if RUNS.exists() else {}
    rows = []
    for name, (command, words) in COMMANDS.items():
        run = runs.get(name)
        shown = f"`nox -s {name}`" if command[0] == "nox" else f"`python tools/evidence.py --run {name}`"
        rows.append([words, run["result"] if run else "no recorded run", run["date"] if run else "", shown])
    return _table("what | result | date | command", rows)


def result_of(output: str) -> str:
    """What a run printed of its tests: of pytest's last lines, or of the suites of others."""
    suites = re.findall(r"^(\S+) \(\S+\): (\d+) pass without us, (\d+) of them with us$", output, re.M)
    if suites:
        return "; ".join(f"{name}: {ours} of {alone}" for name, alone, ours in suites)
    counts = Counter[str]()
    for line in re.findall(r"^=* ?((?:\d+ \w+,? ?)+) in [\d.]+s", output, re.M):
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", line):
            counts[word] += int(number)
    return ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "error", "skipped") if counts[word])


def record(name: str, output: str) -> None:
    """Writes the result of a run into the table of runs."""
    runs = tomllib.loads(RUNS.read_text("utf-8")) if RUNS.exists() else {}
    runs[name] = {"date": datetime.now(UTC).date().isoformat(), "result": result_of(output)}
    head = "# The last runs of what `tools/evidence.py --run NAME` runs; it writes this file.\n"
    tables = [
        f'\n[{key}]\ndate = "{runs[key]["date"]}"\nresult = "{runs[key]["result"]}"\n'
        for key in COMMANDS
        if key in runs
    ]
    RUNS.write_text(head + "".join(tables), "utf-8", newline="\n")


# The sections that any checkout can make again.
SECTIONS: dict[str, Callable[[], str]] = {
    "Written tests": counts_section,
    "Generated tests": generators_section,
    "Other programs, and killed processes": runs_section,
}
_HEAD = """\
<!-- Written by tools/evidence.py; run it instead of changing this page. -->

# Evidence

This page lists the test results behind [the guarantees](index.md#what-is-guaranteed), each with the command that
computes it. A test checks that the page is up to date.

"""
_CORPUS = """\
## Recorded streams

`STREAMFOLD_CORPUS=FOLDER python tools/evidence.py` computes this section. The folder is an optional conformance
corpus, which isn't in the repository.

"""
_MISSING = """\
## What is missing

- **Recordings of hosted providers by this project.** The tests use streams that other projects recorded, and
  streams that we wrote from documentation. `nox -s live` records a conversation from each provider whose API key is
  set.
- **Experience from production.** streamfold is alpha, and we know of no production use.
- **Tests on a GPU.** The tests use recordings, parsers (`nox -s parsers`) and chat templates of vLLM and SGLang, but
  don't run these servers. They run llama.cpp's server with a tiny model.
- **Results from Windows and macOS.** The repository's workflow runs the tests there. On other systems,
  `nox -s windows` simulates a part of Windows.
- **Deviations of the Interactions API.** The page doesn't count them yet.
"""


def page() -> str:
    """The whole page; without a corpus its section stays as it is."""
    named = os.environ.get("STREAMFOLD_CORPUS")
    if named:
        corpus = corpus_section(Path(named) / "corpus")
    else:
        corpus = PAGE.read_text("utf-8").partition(_CORPUS)[2].partition("\n\n## ")[0]
    parts = [f"## {title}\n\n{make()}" for title, make in SECTIONS.items()]
    return _HEAD + "\n\n".join([_CORPUS + corpus, *parts, _MISSING])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        (name,) = sys.argv[2:]
        command = COMMANDS[name][0]
        words = [sys.executable, *(command[1:] if command[0] == "python" else ["-m", *command])]
        done = subprocess.run(  # noqa: S603 # a command of the table above
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        print(done.stdout)
        if done.returncode:
            sys.exit(done.returncode)
        record(name, done.stdout)
    PAGE.write_text(page(), "utf-8", newline="\n")
