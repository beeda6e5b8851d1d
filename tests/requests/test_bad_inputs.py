"""Mistakes that people make, and the whole text of what they are told: what is wrong, where, and what is allowed.

What a message in a dict or in JSON may look like is in `test_messages.py`, what a conversation may be in
`test_history.py`, and schemas are in `test_schema.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamfold import (
    AllowedTools,
    ConfigError,
    Message,
    NamedTool,
    Provider,
    StreamDecoder,
    Timeouts,
    Tool,
    ToolCall,
    assistant,
    image,
    run_tools,
    system,
    tool_result,
    user,
)
from streamfold.cli.app import app
from streamfold.config.catalogue import provider_files
from streamfold.config.profile import Profile
from tables import each_row

ENDPOINT: dict[str, Any] = {"base_url": "http://test/v1", "model": "m"}
CALL = ToolCall("a", "f", {}, "{}")
TOOL = {"type": "function", "function": {"name": "look_up"}}
CLOCKS = ", ".join(Timeouts.__dataclass_fields__)
KEYS = ", ".join(name for name in Profile.model_fields if name not in Profile.unlisted)
NAMES = ", ".join(provider_files())
CHOICES = "tool_choice must be 'auto', 'none', 'required', NamedTool(name), AllowedTools(names) or a dict, not"
MEMBERS = (
    "Allowed: name, description, parameters, strict, async. For a provider's own fields, put all tools into"
    " extra_body['tools']"
)
DIALECTS = (
    "Allowed: cohere, deepseek, dsml, functiongemma, gemma4, glm, harmony, hermes, kimi, kimi3, lfm2, llama3, minimax,"
    " minimax3, mistral, named, qwen3coder, required, seed, think, or several joined by '+'"
)


def ask(messages: Any = "Hi", tools: Any = None, *, to: str = "chat", model: Any = None, **options: Any) -> None:
    """Asks a provider; what is wrong is told before anything is sent."""
    names = {"chat": "m", "kimi": "kimi-k2.6", "responses": "m"}
    provider = Provider.from_config({**ENDPOINT, "adapter": to, "model": names[to]})
    provider.chat_stream(messages, tools, model=model, **options)


def configured(**keys: Any) -> Provider:
    return Provider.from_config({**ENDPOINT, **keys})


Row = tuple[Callable[[], Any], str]

MESSAGES: list[Row] = [
    (lambda: ask(None), "messages must be a list of messages or a string, not NoneType"),
    (lambda: ask([]), "messages is empty: add a message"),
    (lambda: ask(""), "messages is empty: add a message"),
    (
        lambda: ask(user("Hi")),
        "messages must be a list of messages or a string, not a single message: put the message into a list",
    ),
    (lambda: ask(["Hi"]), "messages[0] is a string without a role: write user('Hi')"),
    (lambda: ask([("user", "Hi")]), "messages[0] must be a Message or a dict with a role, not a list: ('user', 'Hi')"),
    (
        lambda: ask([Message("user", "Hi", reasoning="Hm.")]),
        "messages[0].reasoning is only allowed for the role 'assistant', not for 'user'",
    ),
    (
        lambda: ask([Message("user", "Hi", tool_calls=(CALL,))]),
        "messages[0].tool_calls is only allowed for the role 'assistant', not for 'user'",
    ),
    (
        lambda: ask([Message("user", "Hi", tool_call_id="a")]),
        "messages[0].tool_call_id is only allowed for the role 'tool', not for 'user'",
    ),
    (
        lambda: ask([user("Hi"), Message("tool", "18")]),
        (
            "messages[1] has no tool_call_id: add the id of the tool call;"
            " pass repair_history=True to repair the conversation"
        ),
    ),
    (
        lambda: ask([user("Hi"), assistant("It", partial=True)]),
        "messages[1] is partial, and this provider can't continue a text: remove partial",
    ),
    (
        lambda: ask([user("Hi"), assistant("It", partial=True)], to="responses"),
        "messages[1] is partial, and this provider can't continue a text: remove partial",
    ),
    (
        lambda: ask([user(image("https://x.test/a.png"))], to="kimi"),
        (
            "messages[0].content[0] is an image by URL, which Kimi does not fetch: pass the bytes, or the ms:// URL of"
            " an upload"
        ),
    ),
    (
        lambda: Message("User", "Hi"),  # type: ignore[arg-type]
        (
            "the role of a message must be one of system, developer, user, assistant, tool, function, not 'User'"
            " (did you mean 'user'?)"
        ),
    ),
    (lambda: system(5), "the content of a message must be text or a list of parts, not int: 5"),  # type: ignore[arg-type]
    (
        lambda: assistant(tool_calls=CALL),  # type: ignore[arg-type]
        "assistant(): tool_calls must be a list of tool calls, not a single tool call",
    ),
    (
        lambda: assistant(tool_calls=["f"]),  # type: ignore[list-item]
        "the tool calls of a message must be ToolCalls, not str: 'f'",
    ),
    (
        lambda: tool_result("a", "18"),  # type: ignore[arg-type]
        "tool_result() needs the ToolCall that produced the result, not str",
    ),
    (lambda: image(""), "image() accepts a URL, bytes or a file path, not an empty value"),
    (lambda: image(b""), "image() accepts a URL, bytes or a file path, not an empty value"),
]

TOOLS: list[Row] = [
    (lambda: ask(tools=TOOL), "tools must be a list of tools, not a single tool"),
    (
        lambda: ask(tools=["look_up"]),
        "a tool must be a Tool, a typed function, a pydantic model or a dict, not str: 'look_up'",
    ),
    (
        lambda: ask(tools=[{"name": "look_up", "input_schema": {}}]),
        f"the tool 'look_up' has the unknown field 'input_schema' (did you mean 'parameters'?). {MEMBERS}",
    ),
    (
        lambda: ask(tools=[{"type": "function", "function": {"name": "look_up", "paramters": {}}}]),
        f"the tool 'look_up' has the unknown field 'paramters' (did you mean 'parameters'?). {MEMBERS}",
    ),
    (
        lambda: ask(tools=[{**TOOL, "defer_loading": True}]),
        f"the tool 'look_up' has the unknown field 'defer_loading'. {MEMBERS}",
    ),
    (
        lambda: ask(tools=[{**TOOL, "cache_control": {}}]),
        """the tool 'look_up': cache_control must be {"type": "ephemeral"}, with or without a ttl, not {}""",
    ),
    (
        lambda: ask(tools=[{"type": "function", "function": {}}]),
        (
            'a tool must have the form {"type": "function", "function": {"name": ...}}, not'
            " {'type': 'function', 'function': {}}"
        ),
    ),
    (
        lambda: ask(tools=[{"type": "functoin"}]),
        "the tool {'type': 'functoin'} has the type 'functoin' (did you mean 'function'?)",
    ),
    (
        lambda: ask(tools=[{"type": "function", "function": {"name": "look_up", "parameters": "city"}}]),
        "the tool 'look_up': parameters must be a JSON schema, not str",
    ),
    (
        lambda: ask(tools=[{"type": "function", "function": {"name": "look_up", "strict": "yes"}}]),
        "the tool 'look_up': strict must be true or false, not str",
    ),
    (lambda: ask(tools=[{"name": 5}]), "the tool 5: name must be a string, not int"),
    (lambda: Tool(""), "the name of a tool must be a non-empty string, not ''"),
    (
        lambda: Tool("look_up", parameters=[]),  # type: ignore[arg-type]
        "the tool 'look_up': parameters must be a JSON schema, not list",
    ),
    (
        lambda: ask(tools=[TOOL, Tool("look_up")]),
        "two tools are called 'look_up': tool names must be unique",
    ),
    (
        lambda: Tool.from_mcp({"title": "Look up"}),
        "the description of an MCP tool must have a name, not None: {'title': 'Look up'}",
    ),
    (
        lambda: run_tools(configured(), "Hi", [Tool("look_up")]),
        "the tool 'look_up' has no function to run: pass function=, or list it in external= if it runs elsewhere",
    ),
    (lambda: run_tools(configured(), "Hi", [], max_turns=0), "max_turns must be at least 1, not 0"),
    (lambda: ask(tools=[TOOL], tool_choice="any"), f"{CHOICES} 'any' (did you mean 'required'?)"),
    (lambda: ask(tools=[TOOL], tool_choice="Required"), f"{CHOICES} 'Required' (did you mean 'required'?)"),
    (lambda: ask(tools=[TOOL], tool_choice="look_up"), f"{CHOICES} 'look_up' (did you mean NamedTool('look_up')?)"),
    (
        lambda: ask(tools=[TOOL], tool_choice={"type": "tool", "name": "look_up"}),
        f"{CHOICES} {{'type': 'tool', 'name': 'look_up'}} (did you mean NamedTool('look_up')?)",
    ),
    (lambda: ask(tools=[TOOL], tool_choice=True), f"{CHOICES} True"),
    (lambda: ask(tools=[TOOL], tool_choice={}), f"{CHOICES} {{}}"),
    (lambda: StreamDecoder("chat", tool_choice="NONE"), f"{CHOICES} 'NONE' (did you mean 'none'?)"),
    (
        lambda: ask(tools=[TOOL], tool_choice=NamedTool("lookup")),
        "tool_choice names 'lookup' (did you mean 'look_up'?), which is not among the tools: look_up",
    ),
    (
        lambda: ask(tool_choice="required"),
        "tool_choice is 'required', but there are no tools: pass tools=, or remove tool_choice",
    ),
    (
        lambda: ask(tool_choice="required", extra_body={"tools": [{"type": "web_search"}]}),
        "tool_choice is 'required', but there are only tools in extra_body: put tool_choice into extra_body too",
    ),
    (
        lambda: ask(tools=[TOOL], tool_choice=AllowedTools("look_up")),  # type: ignore[arg-type]
        "AllowedTools needs a list with at least one tool name, not 'look_up'",
    ),
    (
        lambda: ask(tools=[TOOL], tool_choice=AllowedTools(("look_up",), "none")),  # type: ignore[arg-type]
        "the mode of AllowedTools must be 'auto' or 'required', not 'none'",
    ),
]

OPTIONS: list[Row] = [
    (lambda: ask(temprature=1), "unknown option 'temprature': did you mean 'temperature'?"),
    (lambda: ask(max_tokens=5), "unknown option 'max_tokens': pass max_output_tokens="),
    (
        lambda: ask(stream=True),
        "unknown option 'stream': only chat() accepts it, because it returns the whole answer",
    ),
    (lambda: ask(functions=[]), "unknown option 'functions': pass tools="),
    (lambda: ask(timeout=5), "unknown option 'timeout': pass timeouts="),
    (lambda: ask(logit_bias={}), "unknown option 'logit_bias': pass extra_body={'logit_bias': ...}"),
    (lambda: ask(top_k=5), "unknown option 'top_k': pass extra_body={'top_k': ...}"),
    (
        lambda: ask(shape="round"),
        (
            "unknown option 'shape': allowed: temperature, top_p, max_output_tokens, stop, seed,"
            " parallel_tool_calls, reasoning_effort, compact_threshold, response_format,"
            " disable_thinking_for_forced_tools, unsupported_options,"
            " extra_body, model,"
            " extra_headers, timeouts, repair_history, partial_tool_calls, coalesce, conversation, max_continuations."
            " Anything else goes into extra_body={'shape': ...}"
        ),
    ),
    (lambda: ask(n=2), "n must be 1, because a request returns one answer: send several requests instead"),
    (lambda: ask(temperature="hot"), "temperature must be a number, not 'hot'"),
    (lambda: ask(temperature=True), "temperature must be a number, not True"),
    (
        lambda: ask(max_output_tokens=0),
        "max_output_tokens must be a whole number greater than 0, not 0",
    ),
    (lambda: ask(stop=["a", 5]), "stop must be a string or a list of strings, not ['a', 5]"),
    (lambda: ask(seed=1.5), "seed must be a whole number, not 1.5"),
    (lambda: ask(parallel_tool_calls="no"), "parallel_tool_calls must be true or false, not 'no'"),
    (
        lambda: ask(reasoning_effort="hgih"),
        (
            "reasoning_effort must be one of none, minimal, low, medium, high, xhigh, max, not 'hgih' (did you"
            " mean 'high'?). Other values of a provider go into extra_body"
        ),
    ),
    (
        lambda: ask(response_format="JSON"),
        'response_format must be "json", a JSON schema or a type, not \'JSON\' (did you mean "json"?)',
    ),
    (
        lambda: ask(response_format={"type": "json_schema", "json_schema": {}}),
        "response_format.json_schema.schema is missing: it must be a JSON schema",
    ),
    (
        lambda: ask(response_format={"type": "json_schema", "schema": {}, "stict": True}),
        "response_format.stict is unknown here: a schema has name, description, schema and strict",
    ),
    (
        lambda: ask(response_format={"type": "json_object", "shema": {}}),
        "response_format.shema is unknown here: a schema has name, description, schema and strict",
    ),
    (
        lambda: ask(response_format={"type": "grammar", "grammar": "x"}),
        (
            "response_format.type: unknown type 'grammar'. Allowed: text, json_object, json_schema, object, array,"
            " string, number, integer, boolean, null"
        ),
    ),
    (
        lambda: ask(response_format={"format": {"type": "text"}, "verbosity": "low"}),
        "response_format.verbosity is unknown here: pass it in extra_body",
    ),
    (lambda: ask(extra_body=[("a", 1)]), "extra_body must be a mapping, not [('a', 1)]"),
    (
        lambda: ask(extra_body={"since": {"when": object()}}),
        "the request can't be written as JSON: extra_body.since.when is of the type object",
    ),
    (lambda: ask(temperature=float("nan")), "the request can't be written as JSON: temperature is nan"),
    (lambda: ask(extra_headers={"X-Team": 5}), "extra_headers.X-Team: must be a string, not int"),
    (lambda: ask(extra_headers={"X Team": "a"}), "extra_headers: 'X Team' can't be the name of a header"),
    (
        lambda: ask(extra_headers={"X-Team": "ü"}),
        ("extra_headers.X-Team: contains a character that isn't allowed in a header"),
    ),
    (lambda: ask(timeouts={"raed": 5}), f"timeouts.raed: unknown key (did you mean 'read'?). Allowed: {CLOCKS}"),
    (lambda: ask(timeouts=5), 'timeouts must be a Timeouts or a mapping such as {"read": 5}, not int'),
    (lambda: ask(model=5), "model must be the name of a model, not int"),
    (
        lambda: ask(seed=1, to="responses", unsupported_options="strict"),
        'm doesn\'t support a seed: seed=1 was not sent (an error, because unsupported_options is "strict")',
    ),
    (lambda: ask(unsupported_options="maybe"), 'unsupported_options must be "adapt" or "strict", not \'maybe\''),
]

PROFILES: list[Row] = [
    (
        lambda: Provider.from_config("opnai:gpt-5"),
        "unknown provider 'opnai' (did you mean 'openai'?)",
    ),
    (
        lambda: Provider.from_config("openai/gpt-5"),
        "unknown provider 'openai/gpt-5' (did you mean 'openai:gpt-5'?)",
    ),
    (
        lambda: Provider.from_config("gpt-5"),
        (
            "unknown provider 'gpt-5' (is it a model? Its provider goes before it: PROVIDER:gpt-5). The catalogue has: "
            + NAMES
        ),
    ),
    (lambda: Provider.from_config(""), f'a provider is "NAME" or "NAME:MODEL", not \'\'. The catalogue has: {NAMES}'),
    (lambda: Provider.from_config(5), "a provider must be a name or a mapping, not int"),  # type: ignore[arg-type]
    (
        lambda: Provider.from_config({}),
        f"provider 'custom': base_url: {Profile.required['base_url']}",
    ),
    (
        lambda: configured(base_url="api.example.com/v1"),
        "provider 'custom': base_url: must begin with http:// or https://",
    ),
    (
        lambda: configured(base_url="https://${HOST-NAME}/v1"),
        "provider 'custom': base_url: a reference is written \"${NAME}\", with letters, digits and _",
    ),
    (
        lambda: configured(api_key_env="sk-abc123def456ghi789jkl"),
        "provider 'custom': api_key_env: must be the name of an environment variable, not the key itself",
    ),
    (
        lambda: configured(apikey="secret"),
        "provider 'custom': apikey: unknown key (did you mean 'api_key'?)",
    ),
    (lambda: configured(zzz=1), f"provider 'custom': zzz: unknown key. Allowed: {KEYS}"),
    (
        lambda: configured(adapter="Chat"),
        (
            "provider 'custom': adapter: unknown adapter 'Chat' (did you mean 'chat'?)."
            " Allowed: anthropic, chat, gemini, interactions, kimi, responses"
        ),
    ),
    (
        lambda: configured(dialect="hermess"),
        f"provider 'custom': dialect: unknown dialect 'hermess' (did you mean 'hermes'?). {DIALECTS}",
    ),
    (lambda: configured(timeouts=5), "provider 'custom': timeouts: must be a table"),
    (
        lambda: configured(timeouts={"raed": 5}),
        f"provider 'custom': timeouts.raed: unknown key (did you mean 'read'?). Allowed: {CLOCKS}",
    ),
    (lambda: configured(timeouts={"read": "fast"}), "provider 'custom': timeouts.read: must be a number"),
    (
        lambda: configured(limits={"events": 5}),
        "provider 'custom': limits.events: unknown key (did you mean 'event_bytes'?)",
    ),
    (lambda: configured(max_retries=-1), "provider 'custom': max_retries: must not be less than 0"),
    (
        lambda: configured(transport="requests"),
        "provider 'custom': transport: can't be 'requests'. Allowed: httpx, aiohttp, httpx2, websocket",
    ),
    (
        lambda: configured(headers={"Content-Length": "3"}),
        ("provider 'custom': headers: Content-Length can't be set: the HTTP library sets this header"),
    ),
    (
        lambda: configured(base_url="https://a.test/v1/chat/completions"),
        "provider 'custom': base_url: must end before /chat/completions, which streamfold adds: https://a.test/v1",
    ),
    (lambda: configured(headers={"X-Team": 5}), "provider 'custom': headers.X-Team: must be a string"),
    (
        lambda: configured(quirks={"max_token_field": "max_tokens"}),
        "provider 'custom': quirks.max_token_field: unknown key (did you mean 'max_tokens_field'?)",
    ),
    (
        lambda: configured(quirks={"max_tokens_field": "max"}),
        "provider 'custom': quirks.max_tokens_field: can't be 'max'. Allowed: max_tokens, max_completion_tokens",
    ),
    (
        lambda: configured(fallback=["kimmi"]),
        "provider 'custom': fallback[0]: unknown provider 'kimmi' (did you mean 'kimi'?)",
    ),
    (
        lambda: Provider.from_config(ENDPOINT, config="streamfold.toml"),
        "config= is only for named providers, not for a mapping",
    ),
    (
        lambda: Provider.from_config("kimi", config="nowhere.toml"),
        "config file not found: nowhere.toml (from the path that was passed)",
    ),
    (
        lambda: Provider.from_config("openai").chat_stream("Hi"),
        'no model for "openai": write "openai:MODEL", or pass model=',
    ),
    (
        lambda: Provider.from_config("openai:gpt-5-mini").chat_stream("Hi"),
        'no API key for "openai": set OPENAI_API_KEY',
    ),
    (
        lambda: configured(base_url="https://${NOWHERE}/v1").chat_stream("Hi"),
        'provider "custom": base_url: NOWHERE is not set',
    ),
    (lambda: configured(api_key="${NOWHERE}").chat_stream("Hi"), 'provider "custom": api_key: NOWHERE is not set'),
    (
        lambda: configured(headers={"X-Team": "${NOWHERE}"}).chat_stream("Hi"),
        'provider "custom": headers.X-Team: NOWHERE is not set',
    ),
    (
        lambda: StreamDecoder("chatt"),
        (
            "unknown adapter 'chatt' (did you mean 'chat'?)."
            " Allowed: anthropic, chat, gemini, interactions, kimi, responses"
        ),
    ),
]

ROWS = [*MESSAGES, *TOOLS, *OPTIONS, *PROFILES]


@each_row(("mistake", "wanted"), ROWS)
def test_what_code_is_told(mistake: Callable[[], Any], wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mistake in what a program passes is a ConfigError, and never another exception from deep inside."""
    for name in ("OPENAI_API_KEY", "NOWHERE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError) as caught:
        mistake()
    assert str(caught.value) == wanted


# --- streamfold.toml --------------------------------------------------------------------------------------------------

OWN = 'default = "own"\n[providers.own]\nprofile = "kimi"\n'
FILES = [
    ("default = ", "FILE:1: not TOML: Invalid value at the end of the file"),
    (
        'default = "own"\n[providers.own\n',
        "FILE:2: not TOML: Expected ']' at the end of a table declaration in column 15",
    ),
    ("default = 5", "FILE:1: default: must be a string"),
    (
        'defalt = "own"',
        (
            "FILE:1: defalt: unknown key (did you mean 'default'?). Allowed: default, families, providers,"
            " rate_limits, gateway"
        ),
    ),
    (
        '[providers.own]\nprofile = "kimi"',
        (
            'no provider was named: pass one (commands: -p own), write default = "own" into FILE, or set'
            " STREAMFOLD_PROVIDER=own"
        ),
    ),
    (
        'default = "own"\n\n[provider.own]\nprofile = "kimi"',
        (
            "FILE:3: provider: unknown key (did you mean 'providers'?). Allowed: default, families, providers,"
            " rate_limits, gateway"
        ),
    ),
    (
        'default = "own"\n[own]\nprofile = "kimi"',
        (
            "FILE:2: own: unknown key. Allowed: default, families, providers, rate_limits, gateway."
            " A provider is written as [providers.own]"
        ),
    ),
    ('default = "own"\n[providers]\nown = "kimi"', "FILE:3: providers.own: must be a table"),
    (
        'default = "onw"\n[providers.own]\nprofile = "kimi"',
        "FILE:1: default: unknown provider 'onw' (did you mean 'own'?)",
    ),
    (
        'default = "own"\n[providers.own]\nmodel = "m"',
        f"FILE:2: providers.own.base_url: {Profile.required['base_url']}",
    ),
    (
        'default = "own"\n[providers.own]\nprofile = "kimmi"',
        "FILE:3: providers.own.profile: unknown profile 'kimmi' (did you mean 'kimi'?)",
    ),
    (
        OWN + 'base_ulr = "http://x"',
        "FILE:4: providers.own.base_ulr: unknown key (did you mean 'base_url'?)",
    ),
    (OWN + 'base_url = "ftp://x"', "FILE:4: providers.own.base_url: must begin with http:// or https://"),
    (
        OWN + 'base_url = "http://${A B}"',
        'FILE:4: providers.own.base_url: a reference is written "${NAME}", with letters, digits and _',
    ),
    (
        OWN + 'api_key_env = "sk-abc123def456ghi789jkl"',
        "FILE:4: providers.own.api_key_env: must be the name of an environment variable, not the key itself",
    ),
    (OWN + 'max_retries = "3"', "FILE:4: providers.own.max_retries: must be a whole number"),
    (OWN + "max_retries = -1", "FILE:4: providers.own.max_retries: must not be less than 0"),
    (
        OWN + 'transport = "htpx"',
        (
            "FILE:4: providers.own.transport: can't be 'htpx' (did you mean 'httpx'?)."
            " Allowed: httpx, aiohttp, httpx2, websocket"
        ),
    ),
    (OWN + "headers = { X-Team = 5 }", "FILE:4: providers.own.headers.X-Team: must be a string"),
    (
        OWN + 'dialect = "kmi"',
        f"FILE:4: providers.own.dialect: unknown dialect 'kmi' (did you mean 'kimi'?). {DIALECTS}",
    ),
    (
        OWN + "[providers.own.timeouts]\nraed = 5",
        (
            "FILE:5: providers.own.timeouts.raed: unknown key (did you mean 'read'?). Allowed: connect, first_event,"
            " read, stall, total"
        ),
    ),
    (OWN + "[providers.own.quirks]\nhosted = 1.5", "FILE:5: providers.own.quirks.hosted: must be true or false"),
    (
        OWN + 'fallback = ["own"]',
        "FILE:4: providers.own.fallback[0]: the fallbacks form a cycle: own -> own",
    ),
    (
        'default = "a:b"\n[providers."a:b"]\nprofile = "kimi"',
        (
            'FILE:2: providers."a:b": the name of a provider must not contain spaces or colons: a colon separates'
            " the name from a model"
        ),
    ),
]


@each_row(("text", "wanted"), FILES)
def test_what_a_file_is_told(text: str, wanted: str, tmp_path: Path) -> None:
    """With the line of the mistake."""
    path = tmp_path / "streamfold.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        Provider.from_config(config=path)
    assert str(caught.value).replace(str(path), "FILE") == wanted


# --- the command line -------------------------------------------------------------------------------------------------

COMMANDS: list[tuple[str, str]] = [
    ("chat Hi -p kimmi", "unknown provider 'kimmi' (did you mean 'kimi'?)"),
    ("chat Hi -p openai", 'no model for "openai": write "openai:MODEL", or pass model='),
    (
        "chat Hi -p ollama:m --base-url localhost:11434",
        "provider 'ollama': base_url: must begin with http:// or https://",
    ),
    (
        "chat Hi -p ollama:m --tool-choice look_up",
        (
            "tool_choice is {'type': 'function', 'name': 'look_up'}, but there are no tools: pass tools=, or remove"
            " tool_choice"
        ),
    ),
    (
        "chat Hi -p ollama:m --tool-file FOLDER/no.json",
        "FOLDER/no.json: not JSON: Expecting value: line 1 column 2 (char 1)",
    ),
    (
        "chat Hi -p ollama:m --tool-file FOLDER/names.json",
        "a tool must be a Tool, a typed function, a pydantic model or a dict, not str: 'look_up'",
    ),
    (
        "chat Hi --config FOLDER/nowhere.toml",
        "config file not found: FOLDER/nowhere.toml (from the path that was passed)",
    ),
    (
        "replay FOLDER/a.sse --adapter kmi",
        "unknown adapter 'kmi' (did you mean 'kimi'?). Allowed: anthropic, chat, gemini, interactions, kimi, responses",
    ),
    (
        "replay FOLDER/a.sse --dialect hermess",
        f"unknown dialect 'hermess' (did you mean 'hermes'?). {DIALECTS}",
    ),
    ("config show kimmi", "unknown provider 'kimmi' (did you mean 'kimi'?)"),
]


@each_row(("command", "wanted"), COMMANDS)
def test_what_a_command_is_told(command: str, wanted: str, tmp_path: Path) -> None:
    """One line on standard error, and exit code 2."""
    (tmp_path / "no.json").write_text("[look_up]", "utf-8")
    (tmp_path / "names.json").write_text(json.dumps(["look_up"]), "utf-8")
    (tmp_path / "a.sse").write_text("data: [DONE]\n\n", "utf-8")
    given = [word.replace("FOLDER", str(tmp_path)) for word in command.split()]
    done = CliRunner().invoke(app, given, env={"COLUMNS": "1000"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.strip().replace(str(tmp_path), "FOLDER") == f"error: {wanted}"


def test_there_are_enough_rows() -> None:
    """A table that shrinks is noticed."""
    assert len(ROWS) + len(FILES) + len(COMMANDS) >= 130
