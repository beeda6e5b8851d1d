"""Tools that a provider runs, in the list of tools: each kind in the words of each API, or refused with both names."""

from __future__ import annotations

from typing import Any

import pytest

from streamfold import (
    AllowedTools,
    CodeExecution,
    ConfigError,
    CustomTool,
    FileSearch,
    HostedMcpServer,
    HostedTool,
    Message,
    NamedTool,
    Provider,
    Tool,
    UrlContext,
    WebSearch,
    user,
)
from tables import each_row

OSLO = {"city": "Oslo", "country": "NO"}
PLACE = {"type": "approximate", **OSLO}
MODELS = {
    "openai-responses": "gpt-5.4",
    "anthropic": "claude-sonnet-5",
    "gemini": "gemini-3-pro-preview",
    "xai-responses": "grok-4",
    "openrouter": "x/y",
    "openrouter-responses": "x/y",
    "minimax-anthropic": "MiniMax-M2",
    "vertex-express": "gemini-3-pro-preview",
}
F = Tool("f", "Does it.", {"type": "object", "properties": {}})


def preview(profile: str, *tools: Any, **options: Any) -> Any:
    provider = Provider.from_config(profile, api_key="x", model=options.pop("model", MODELS[profile]))
    return provider.preview("Hi", list(tools), **options)


MCP = HostedMcpServer("wiki", "https://wiki.test/mcp", authorization="t0ken", allowed_tools=["ask"])
MCP_LIST = {
    "server_label": "wiki",
    "server_url": "https://wiki.test/mcp",
    "authorization": "t0ken",
    "allowed_tools": ["ask"],
}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}

# Kind by API: what stands in the list of tools.
CELLS: list[tuple[str, Any, Any]] = [
    ("openai-responses", WebSearch(), {"type": "web_search"}),
    ("openai-responses", WebSearch(allowed_domains=["met.no"], user_location=OSLO, context_size="low"),
     {"type": "web_search", "filters": {"allowed_domains": ["met.no"]}, "user_location": PLACE,
      "search_context_size": "low"}),
    ("openai-responses", CodeExecution(), {"type": "code_interpreter", "container": {"type": "auto"}}),
    ("openai-responses", CodeExecution(files=["f1"]),
     {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f1"]}}),
    ("openai-responses", CodeExecution(container="cntr_1"), {"type": "code_interpreter", "container": "cntr_1"}),
    ("openai-responses", FileSearch(["vs"], 3, {"type": "eq", "key": "a", "value": 1}),
     {"type": "file_search", "vector_store_ids": ["vs"], "max_num_results": 3,
      "filters": {"type": "eq", "key": "a", "value": 1}}),
    ("openai-responses", MCP, {"type": "mcp", **MCP_LIST}),
    ("openai-responses", HostedMcpServer("wiki", "https://w.test", headers={"a": "b"}, require_approval="always"),
     {"type": "mcp", "server_label": "wiki", "server_url": "https://w.test", "headers": {"a": "b"},
      "require_approval": "always"}),
    ("openai-responses", CustomTool("sql", "Runs SQL."),
     {"type": "custom", "name": "sql", "description": "Runs SQL.", "format": {"type": "text"}}),
    ("openai-responses", CustomTool("sql", grammar="start: /x/"), {"type": "custom", "name": "sql", "format": GRAMMAR}),
    ("openai-responses", CustomTool("sql", grammar={"syntax": "regex", "definition": "x+"}),
     {"type": "custom", "name": "sql", "format": {"type": "grammar", "syntax": "regex", "definition": "x+"}}),
    ("anthropic", WebSearch(3, ["met.no"], user_location=OSLO),
     {"type": "web_search_20260318", "name": "web_search", "max_uses": 3, "allowed_domains": ["met.no"],
      "user_location": PLACE}),
    ("anthropic", WebSearch(blocked_domains=["a.test"]),
     {"type": "web_search_20260318", "name": "web_search", "blocked_domains": ["a.test"]}),
    ("anthropic", UrlContext(2, citations=True, max_content_tokens=900),
     {"type": "web_fetch_20260318", "name": "web_fetch", "max_uses": 2, "citations": {"enabled": True},
      "max_content_tokens": 900}),
    ("anthropic", CodeExecution(), {"type": "code_execution_20260521", "name": "code_execution"}),
    ("anthropic", MCP, {"type": "mcp_toolset", "mcp_server_name": "wiki", "default_config": {"enabled": False},
                        "configs": {"ask": {"enabled": True}}}),
    ("gemini", WebSearch(), {"googleSearch": {}}),
    ("gemini", UrlContext(), {"urlContext": {}}),
    ("gemini", CodeExecution(), {"codeExecution": {}}),
    ("gemini", FileSearch(["stores/a"], 4, "a = 1"),
     {"fileSearch": {"fileSearchStoreNames": ["stores/a"], "topK": 4, "metadataFilter": "a = 1"}}),
    ("xai-responses", WebSearch(allowed_domains=["met.no"]), {"type": "web_search", "allowed_domains": ["met.no"]}),
    ("xai-responses", WebSearch(blocked_domains=["a.test"]), {"type": "web_search", "excluded_domains": ["a.test"]}),
    ("xai-responses", CodeExecution(), {"type": "code_interpreter"}),
    ("xai-responses", FileSearch(["c"]), {"type": "file_search", "vector_store_ids": ["c"]}),
    ("xai-responses", MCP, {"type": "mcp", **MCP_LIST}),
    *((name, WebSearch(3, blocked_domains=["a.test"], user_location=OSLO, context_size="high"),
       {"type": "openrouter:web_search", "parameters": {
           "max_uses": 3, "excluded_domains": ["a.test"], "user_location": PLACE, "search_context_size": "high"}})
      for name in ("openrouter", "openrouter-responses")),
    ("openrouter", WebSearch(), {"type": "openrouter:web_search"}),
    ("openrouter", UrlContext(), {"type": "openrouter:web_fetch"}),
    ("openrouter", CodeExecution(), {"type": "openrouter:shell"}),
    ("openrouter-responses", CustomTool("sql"), {"type": "custom", "name": "sql", "format": {"type": "text"}}),
    ("minimax-anthropic", WebSearch(), {"type": "web_search_20250305", "name": "web_search"}),
    # What has no value of ours goes in the provider's own words.
    ("openai-responses", HostedTool({"type": "image_generation", "size": "1024x1024"}),
     {"type": "image_generation", "size": "1024x1024"}),
    ("openai-responses", HostedTool({"type": "tool_search", "execution": "client"}),
     {"type": "tool_search", "execution": "client"}),
    ("anthropic", {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
     {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}),
    ("anthropic", {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
     {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
    ("gemini", {"googleMaps": {}}, {"googleMaps": {}}),
    ("xai-responses", {"type": "x_search", "allowed_x_handles": ["xai"]},
     {"type": "x_search", "allowed_x_handles": ["xai"]}),
    ("openrouter", HostedTool({"type": "openrouter:image_generation"}), {"type": "openrouter:image_generation"}),
]  # fmt: skip


def test_each_kind_on_each_api() -> None:
    """The tool as it is sent, alone and between functions, in the order of the list."""
    for profile, tool, wanted in CELLS:
        assert preview(profile, tool).json()["tools"] == [wanted], (profile, tool)
        mixed = preview(profile, F, tool).json()["tools"]
        assert (len(mixed), mixed[1]) == (2, wanted)
        assert preview(profile, tool, F).json()["tools"][0] == wanted


REFUSED: list[tuple[str, Any, str]] = [
    ("openai-responses", UrlContext(), "UrlContext: provider \"openai-responses\" (adapter 'responses') does not run"),
    ("openai-responses", WebSearch(max_uses=3), "WebSearch(max_uses=...): provider \"openai-responses\" doesn't"),
    ("openai-responses", WebSearch(blocked_domains=["a"]), "WebSearch(blocked_domains=...)"),
    ("anthropic", FileSearch(["a"]), "Its hosted tools: code_execution, mcp, web_fetch, web_search"),
    ("anthropic", CustomTool("sql"), "CustomTool: provider \"anthropic\""),
    ("anthropic", CodeExecution(files=["a"]), "CodeExecution(files=...)"),
    ("anthropic", HostedMcpServer("w", "https://w.test", headers={"a": "b"}), "HostedMcpServer(headers=...)"),
    ("anthropic", HostedMcpServer("w", "https://w.test", require_approval="always"), "isn't supported by Anthropic"),
    ("gemini", HostedMcpServer("w", "https://w.test"), "HostedMcpServer: provider \"gemini\""),
    ("gemini", WebSearch(allowed_domains=["a"]), "WebSearch(allowed_domains=...)"),
    ("minimax-anthropic", CodeExecution(), "Its hosted tools: web_search"),
    ("xai-responses", UrlContext(), "UrlContext: provider \"xai-responses\""),
]  # fmt: skip


def test_what_an_api_or_an_endpoint_has_not_is_refused() -> None:
    """With the name of the tool and of the provider, and what it has; a limit is never left out."""
    for profile, tool, words in REFUSED:
        with pytest.raises(ConfigError) as caught:
            preview(profile, tool)
        assert words in str(caught.value), (profile, tool)


PAIRS = {"openai": "openai-responses", "azure": "azure-responses", "xai": "xai-responses"}


def test_the_api_that_is_called_decides() -> None:
    """A provider with both of OpenAI's APIs takes the tools of its namesake where it calls Responses."""
    tools = [tool for profile, tool, _ in CELLS if profile == "openai-responses"]
    for name, namesake in PAIRS.items():
        for model in ("gpt-5.4", "gpt-4o", "ft:gpt-4.1:org", "o3-pro"):
            one = Provider.from_config(f"{name}:{model}", api_key="x", api="responses")
            two = Provider.from_config(f"{namesake}:{model}", api_key="x")
            for tool in [*tools, F]:
                sent, wanted = [], []
                for provider, found in ((one, sent), (two, wanted)):
                    try:
                        preview = provider.preview("Hi", [F, tool] if tool is not F else [F], reasoning_effort="low")
                        found += [preview.url, preview.json(), *(warning.detail for warning in preview.warnings)]
                    except ConfigError as error:
                        found.append(str(error))
                assert sent == [each.replace(namesake, name) if isinstance(each, str) else each for each in wanted]
    sent = Provider.from_config("openai:gpt-5.4", api_key="x").preview("Hi", [F, WebSearch()])
    assert sent.url.endswith("/responses")
    assert sent.json()["tools"][1] == {"type": "web_search"}
    with pytest.raises(ConfigError, match=r'Another API of this provider runs it: set api = "responses"'):
        Provider.from_config("openai:gpt-4o", api_key="x").preview("Hi", [WebSearch()])


def test_tools_that_a_program_configures_count_on_both_apis() -> None:
    """`hosted` of a table replaces what the catalogue says."""
    provider = Provider.from_config("openai:gpt-5.4", api_key="x", hosted=["mcp"])
    with pytest.raises(ConfigError, match="Its hosted tools: mcp"):
        provider.preview("Hi", [CustomTool("sql")])


def test_compatible_servers_have_none() -> None:
    """A server that speaks the same wire format does not run its maker's tools, unless its file says so."""
    for profile in ("deepseek-anthropic", "kimi", "ollama", "vllm-anthropic"):
        provider = Provider.from_config(profile, api_key="x", model="m")
        with pytest.raises(ConfigError, match="It has no hosted tools"):
            provider.preview("Hi", [WebSearch()])
        assert provider.preview("Hi", [HostedTool({"type": "anything"})]).json()["tools"] == [{"type": "anything"}]


def test_an_endpoint_of_ones_own_is_asked() -> None:
    """Nobody has said what it runs: the wire format decides."""
    own = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "adapter": "anthropic", "api_key": "x"}
    sent = Provider.from_config(own).preview("Hi", [WebSearch()])
    assert sent.json()["tools"] == [{"type": "web_search_20260318", "name": "web_search"}]
    with pytest.raises(ConfigError, match=r"does not run the tool 'web_search'\. Its hosted tools: mcp"):
        Provider.from_config({**own, "hosted": ["mcp"]}).preview("Hi", [WebSearch()])


def test_an_argument_that_limits_nothing_is_dropped_with_a_warning() -> None:
    """Where the user is and how much is read changes no meaning."""
    sent = preview("gemini", WebSearch(user_location=OSLO, context_size="low"))
    assert sent.json()["tools"] == [{"googleSearch": {}}]
    assert [(warning.code, warning.detail) for warning in sent.warnings] == [
        (
            "option_dropped",
            ('WebSearch: user_location, context_size not sent, because provider "gemini" doesn\'t support it'),
        )
    ]


def test_tools_in_extra_body_are_appended() -> None:
    """Never a replacement for those of the program, on any API."""
    raw = {"type": "web_search_20250305", "name": "web_search"}
    for profile in ("anthropic", "openai-responses", "openrouter", "gemini"):
        tools = preview(profile, F, extra_body={"tools": [raw]}).json()["tools"]
        assert (len(tools), tools[1]) == (2, raw)


def test_an_mcp_server_of_claude_stands_beside_the_tools() -> None:
    """With the token in its own place, and the header that allows it."""
    sent = preview("anthropic", MCP)
    server = {"type": "url", "url": "https://wiki.test/mcp", "name": "wiki", "authorization_token": "t0ken"}
    assert sent.json()["mcp_servers"] == [server]
    assert sent.headers["anthropic-beta"] == "mcp-client-2025-11-20"
    assert "t0ken" not in repr(MCP)


def test_gemini_is_told_of_functions_beside_its_own_tools() -> None:
    """Gemini 3 alone takes both; Vertex AI without being told; older models take none."""
    told = {"includeServerSideToolInvocations": True}
    assert preview("gemini", F, WebSearch()).json()["toolConfig"] == told
    assert "toolConfig" not in preview("gemini", WebSearch()).json()
    assert "toolConfig" not in preview("vertex-express", F, WebSearch()).json()
    with pytest.raises(ConfigError, match="doesn't accept functions together with Google's hosted tools"):
        preview("gemini", F, WebSearch(), model="gemini-2.5-flash")
    assert preview("gemini", WebSearch(), model="gemini-2.5-flash").json()["tools"] == [{"googleSearch": {}}]


@each_row(
    ("make", "words"),
    [
        (lambda: WebSearch(max_uses=0), "max_uses"),
        (lambda: WebSearch(allowed_domains="met.no"), "a list of strings"),
        (lambda: WebSearch(allowed_domains=["a"], blocked_domains=["b"]), "not both"),
        (lambda: CodeExecution(["f"], "c"), "not both"),
        (lambda: FileSearch([]), "needs at least one store"),
        (lambda: HostedMcpServer("", "https://w.test"), "name must be a non-empty string"),
        (lambda: CustomTool(""), "name must be a non-empty string"),
        (lambda: HostedTool({}), "needs the tool as a dict"),
    ],
)
def test_arguments_that_make_no_sense(make: Any, words: str) -> None:
    """Said where the tool is written."""
    with pytest.raises(ConfigError, match=words):
        make()


# --- the conversation goes on, here or elsewhere ----------------------------------------------------------------------

SEARCHED: dict[str, tuple[dict[str, Any], str]] = {
    "openai-responses": (
        {"output": [
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        ]},
        "output (web_search)",
    ),
    "anthropic": (
        {"blocks": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "compaction", "content": "Short.", "encrypted_content": "b3BhcXVl"},
            {"type": "text", "text": "Hi"},
        ]},
        "blocks (web_search, compaction)",
    ),
    "gemini": (
        {"blocks": [
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"text": "Hi"},
        ]},
        "blocks (code_execution)",
    ),
}  # fmt: skip
EVERYWHERE = {**{name: MODELS[name] for name in SEARCHED}, "kimi": "kimi-k2.6", "openrouter": "x/y"}


def test_steps_of_tools_go_back_to_their_maker_alone() -> None:
    """There as they came; elsewhere the text stays, and a warning names the kinds that were left out."""
    for maker, (extras, named) in SEARCHED.items():
        turn = Message("assistant", "Hi", extras=extras, origin=maker)
        for name, model in EVERYWHERE.items():
            provider = Provider.from_config(name, api_key="x", model=model, issuer=name)
            sent = provider.preview([user("q"), turn, user("go on")])
            assert "Hi" in str(sent.json())
            said = [warning.detail for warning in sent.warnings if warning.code == "provider_data_dropped"]
            steps = next(iter(extras.values()))[:-1]
            if name == maker:
                assert said == []
                assert all(str(step) in str(sent.json()) for step in steps)
            else:
                assert [f"messages[1].{named}" in detail for detail in said] == [True], (maker, name, said)
                assert not any(str(step) in str(sent.json()) for step in steps)


CHOICES: list[tuple[Any, dict[str, Any]]] = [
    (NamedTool("f"), {"type": "function", "name": "f"}),
    (NamedTool("sql"), {"type": "custom", "name": "sql"}),
    (NamedTool("docs"), {"type": "mcp", "server_label": "docs"}),
    (NamedTool("web_search"), {"type": "web_search"}),
    (NamedTool("apply_patch"), {"type": "apply_patch"}),
    (HostedTool({"type": "mcp", "server_label": "docs", "name": "read"}),
     {"type": "mcp", "server_label": "docs", "name": "read"}),
    ({"type": "programmatic_tool_calling"}, {"type": "programmatic_tool_calling"}),
    (AllowedTools(("f", "docs", "web_search"), "required"), {"type": "allowed_tools", "mode": "required", "tools": [
        {"type": "function", "name": "f"}, {"type": "mcp", "server_label": "docs"}, {"type": "web_search"}]}),
]  # fmt: skip


def test_a_choice_names_any_kind_of_tool() -> None:
    """Each in the words of its kind; one in the provider's own words goes as it is."""
    tools = [
        F,
        CustomTool("sql"),
        HostedMcpServer("docs", "https://a.b"),
        WebSearch(),
        HostedTool({"type": "apply_patch"}),
    ]
    for choice, written in CHOICES:
        assert preview("openai-responses", *tools, tool_choice=choice).json()["tool_choice"] == written
    sent = preview("anthropic", F, WebSearch(), tool_choice=NamedTool("web_search")).json()
    assert sent["tool_choice"] == {"type": "tool", "name": "web_search"}
    with pytest.raises(ConfigError, match="only functions can be chosen"):
        preview("gemini", F, WebSearch(), tool_choice=NamedTool("web_search"))
    with pytest.raises(ConfigError, match="did you mean NamedTool"):
        preview("openai-responses", *tools, tool_choice={"type": "tool", "name": "f"})
