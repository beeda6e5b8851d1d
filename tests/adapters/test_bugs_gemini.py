"""What goes wrong on Gemini's API in other clients: streams that are misread, requests that Google refuses.

The beginning of a test's name is the id of its entry in docs/bugs.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import assert_any_cut, assert_any_cut_error, codes
from streamfold import (
    ConfigError,
    IncompleteStreamError,
    Message,
    Provider,
    QuotaExceededError,
    RateLimitError,
    Reply,
    StreamDecoder,
    StreamError,
    Tool,
    ToolCall,
    UpstreamError,
    assistant,
    image,
    tool_result,
    user,
)
from streamfold.adapters.gemini.errors import read_google_error
from streamfold.engine import ToolNameMap
from streamfold.errors import status_error
from streamfold.requests.schema import openapi_subset
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
TIME = Tool("get_time", "The time.")
CALL = ToolCall("call_a", "get_time", {}, "{}")
OTHER = ToolCall("call_b", "get_time", {"at": 2}, '{"at":2}')
OLD = {"signatures": "optional", "thinking": "budget", "result_images": False, "json_with_tools": False}
PLACEHOLDER = "skip_thought_signature_validator"


# --- how answers are written in these tests ---------------------------------------------------------------------------


def chunk(*parts: dict[str, Any], finish: str | None = None, **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m", **members}


def call(
    name: str | None = "get_time", args: Any = None, signature: str | None = None, **members: Any
) -> dict[str, Any]:
    made = {"name": name, "args": args, **members}
    part = {"functionCall": {key: value for key, value in made.items() if value is not None}}
    return {**part, "thoughtSignature": signature} if signature else part


def sse(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\r\n\r\n" for payload in payloads)


def read(*payloads: Any) -> Reply:
    """The reply, the same for every cut of the bytes."""
    return assert_any_cut(sse(*payloads), adapter="gemini")


def fails(*payloads: Any) -> StreamError:
    """The error, the same for every cut of the bytes."""
    return assert_any_cut_error(sse(*payloads), adapter="gemini")


def called(reply: Reply) -> list[tuple[str, Any]]:
    return [(made.name, made.arguments) for made in reply.tool_calls]


# --- how requests are -------------------------------------------------------------------------------------------------


def preview(messages: Any, tools: Any = (TIME,), **options: Any) -> Any:
    quirks = options.pop("quirks", {})
    config = {"adapter": "gemini", "base_url": "http://127.0.0.1/v1beta", "model": "gemini-3-pro", "quirks": quirks}
    return Provider.from_config(config).preview(messages, list(tools), **options)


def sent(messages: Any, **options: Any) -> Any:
    return json.loads(preview(messages, **options).body)


def contents(messages: Any, **options: Any) -> Any:
    return sent(messages, **options)["contents"]


def changes(messages: Any, **options: Any) -> list[str]:
    return [warning.code for warning in preview(messages, **options).warnings]


def answered(reply: Reply) -> list[Message]:
    """The conversation in which every call of a reply has its result."""
    return [user("Hi"), reply.message, *(tool_result(made, "noon") for made in reply.tool_calls)]


# --- A. calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_gma1_gma2_gma3_every_part_is_a_call(together: bool) -> None:
    """In one chunk or in several, beside text, with the same name: no call is lost, and none is joined to another."""
    parts = [{"text": "Wait."}, call(args={"at": 1}), call(args={"at": 2}), call(args={"at": 2})]
    chunks = [chunk(*parts)] if together else [chunk(part) for part in parts]
    reply = read(*chunks, chunk(finish="STOP"))
    assert (reply.text, called(reply)) == ("Wait.", [("get_time", {"at": at}) for at in (1, 2, 2)])
    assert len({made.id for made in reply.tool_calls}) == 3


@pytest.mark.parametrize("args", [None, {}])
def test_gma4_gma5_gma6_calls_without_arguments(args: Any) -> None:
    """They have an empty object, and go back with one."""
    reply = read(chunk(call(args=args), finish="STOP"))
    assert called(reply) == [("get_time", {})]
    assert contents(answered(reply), quirks=OLD)[1]["parts"] == [{"functionCall": {"name": "get_time", "args": {}}}]


def test_gma7_calls_that_google_ran_itself() -> None:
    """A call that the same stream answers is not handed out; both go back."""
    ran = {"functionResponse": {"name": "list_files", "response": {"files": []}}}
    reply = read(chunk(call("list_files", {"in": "/"})), chunk(ran), chunk({"text": "None."}, finish="STOP"))
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("None.", [], "stop")
    back = contents([user("Hi"), reply.message, user("Go on.")], quirks=OLD)[1]["parts"]
    assert [next(iter(part)) for part in back] == ["functionCall", "functionResponse", "text"]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("MAX_TOKENS", "length"), ("PROHIBITED_CONTENT", "content_filter"), ("SAFETY", "content_filter")],
)
def test_gma8_gma9_calls_of_an_answer_that_was_cut(reason: str, finish: str) -> None:
    """They are dropped, with a warning."""
    reply = read(chunk(call()), chunk(finish=reason))
    assert (reply.tool_calls, reply.finish_reason, codes(reply)) == ([], finish, ["calls_dropped"])


def test_gma10_ids_of_the_server() -> None:
    """They are kept, and go back on the call and on its result; made-up ids stay here."""
    reply = read(chunk(call(id="fc_1"), call()), chunk(finish="STOP"))
    assert reply.tool_calls[0].id == "fc_1"
    back = contents(answered(reply))
    assert [part["functionCall"].get("id") for part in back[1]["parts"]] == ["fc_1", None]
    assert [part["functionResponse"].get("id") for part in back[2]["parts"]] == ["fc_1", None]


def test_gma11_empty_ids() -> None:
    """An empty id is none: each call gets one of its own."""
    reply = read(chunk(call(id=""), call(id="")), chunk(finish="STOP"))
    assert len({made.id for made in reply.tool_calls} - {""}) == 2
    assert codes(reply) == []


@pytest.mark.parametrize("name", [None, ""])
def test_gma12_calls_without_a_name(name: str | None) -> None:
    """They are dropped with a warning."""
    reply = read(chunk({"text": "Hi"}, call(name, {"at": 1})), chunk(finish="STOP"))
    assert (reply.tool_calls, codes(reply)) == ([], ["calls_dropped"])


# --- B. arguments in pieces -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [call(None), call(None, partialArgs=[{"jsonPath": "$.unit", "stringValue": "C"}])])
def test_gmb1_gmb2_arguments_in_pieces(last: dict[str, Any]) -> None:
    """They are put together; the call ends with the first part that does not say that it goes on."""
    more = {"willContinue": True}
    reply = read(
        chunk(call("get_time", willContinue=True)),
        chunk(call(None, partialArgs=[{"jsonPath": "$.city", "stringValue": "Par", **more}], **more)),
        chunk(call(None, partialArgs=[{"jsonPath": "$.city", "stringValue": "is"}], **more)),
        chunk(call(None, partialArgs=[{"jsonPath": "$.days[0]", "numberValue": 2}], **more)),
        chunk(last),
        chunk(call("get_time", {"at": 1}), finish="STOP"),
    )
    unit = {"unit": "C"} if last["functionCall"] else {}
    assert called(reply) == [("get_time", {"city": "Paris", "days": [2], **unit}), ("get_time", {"at": 1})]


def test_gmb3_arguments_in_pieces_are_not_asked_for() -> None:
    """Only Vertex takes that switch."""
    assert "streamFunctionCallArguments" not in json.dumps(sent("Hi", tool_choice="required"))


def test_gmb4_fragments_that_a_proxy_made_calls_of() -> None:
    """Each is a call that can't be run, and none is joined by guess."""
    reply = read(chunk(call(args='{"at"')), chunk(call(args=":1}")), chunk(finish="STOP"))
    assert [made.error for made in reply.tool_calls] == ["invalid_json", "invalid_json"]


# --- C. how it ends ---------------------------------------------------------------------------------------------------


def test_gmc1_a_finish_reason_ends_nothing() -> None:
    """What comes behind STOP is read, and the last reason counts."""
    reply = read(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}), chunk(call(), finish="STOP"))
    assert (reply.text, called(reply), codes(reply)) == ("ab", [("get_time", {})], [])


def test_gmc2_gmc3_a_finish_without_content() -> None:
    """The reason counts without any content, and calls that came before it are handed out."""
    assert read(chunk({"text": "Hi"}), {"candidates": [{"finishReason": "STOP"}]}).finish_reason == "stop"
    reply = read(chunk(call()), chunk({"text": ""}, finish="STOP"))
    assert (called(reply), reply.finish_reason, reply.raw_finish_reason) == ([("get_time", {})], "tool_calls", "STOP")


@each_row(
    ("reason", "retryable"),
    [
        ("MALFORMED_FUNCTION_CALL", True),
        ("UNEXPECTED_TOOL_CALL", True),
        ("TOO_MANY_TOOL_CALLS", False),
        ("MISSING_THOUGHT_SIGNATURE", False),
    ],
)
def test_gmc4_gmc5_gmc9_calls_that_the_model_got_wrong(reason: str, retryable: bool) -> None:
    """They are an error, with Google's own message and the reason as its code."""
    broken = chunk(finish=reason)
    broken["candidates"][0]["finishMessage"] = "Malformed function call: print(1)"
    error = fails(broken)
    assert isinstance(error, UpstreamError)
    assert "Malformed function call: print(1)" in str(error)
    assert (error.code, error.retryable) == (reason, retryable)


@pytest.mark.parametrize("part", [{"text": "Hel"}, call()])
def test_gmc6_no_finish_reason(part: dict[str, Any]) -> None:
    """The stream broke off: no answer, and no call."""
    assert isinstance(fails(chunk(part)), IncompleteStreamError)


@each_row(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("RECITATION", "content_filter"),
        ("OTHER", "unknown"),
        ("NEW", "unknown"),
    ],
)
def test_gmc7_reasons(reason: str, finish: str) -> None:
    """Each is mapped, and kept as sent."""
    reply = read(chunk({"text": "Hi"}, finish=reason))
    assert (reply.finish_reason, reply.raw_finish_reason) == (finish, reason)


def test_gmc8_a_blocked_prompt() -> None:
    """It has no candidates; the reason of the block is the finish reason, and its message the refusal."""
    blocked = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."}
    reply = read({"promptFeedback": blocked, "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}})
    assert (reply.finish_reason, reply.raw_finish_reason, reply.refusal) == (
        "content_filter",
        "PROHIBITED_CONTENT",
        "No.",
    )
    assert reply.usage is not None
    assert reply.usage.input_tokens == 9


# --- D. errors in a stream --------------------------------------------------------------------------------------------

BUSY = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize("before", [[], [chunk({"text": "Hel"})], [chunk(call())]])
def test_gmd1_gmd2_gmd3_an_error_inside_the_stream(before: list[Any]) -> None:
    """It is raised where the caller iterates, however the bytes are cut, and no call is handed out."""
    error = fails(*before, BUSY)
    assert isinstance(error, UpstreamError)
    assert "The model is overloaded." in str(error)
    assert error.code == "UNAVAILABLE"


def test_gmd5_parts_that_nobody_knows() -> None:
    """They are skipped, and go back as they came."""
    reply = read(chunk({"turnToken": "x"}, {"text": "Hi"}), chunk({"hologram": {"shape": 1}}, finish="STOP"))
    assert (reply.text, codes(reply)) == ("Hi", [])
    back = contents([user("Hi"), reply.message, user("Go on.")])[1]["parts"]
    assert back == [{"turnToken": "x"}, {"text": "Hi"}, {"hologram": {"shape": 1}}]


# --- E. signatures and history ----------------------------------------------------------------------------------------


def test_gme1_gme2_gme4_gme5_signatures_of_parallel_calls() -> None:
    """Calls of one answer go back as one content, each with its own signature or none, and with its own id."""
    reply = read(
        chunk({"text": "Hm.", "thought": True}), chunk(call(args={"at": 1}, signature="c2ln", id="fc_1")),
        chunk(call(args={"at": 2}, id="fc_2")), chunk(call(args={"at": 3}, signature="b3RoZXI=", id="fc_3")),
        chunk({"text": ""}, finish="STOP"),
    )  # fmt: skip
    assert [made.id for made in reply.tool_calls] == ["fc_1", "fc_2", "fc_3"]
    talk = answered(reply)
    for history in (talk, [Message.from_json(message.to_json()) for message in talk]):
        back = contents(history)
        assert [content["role"] for content in back] == ["user", "model", "user"]
        assert [part.get("thoughtSignature") for part in back[1]["parts"]] == ["c2ln", None, "b3RoZXI="]
    assert changes(talk) == []


def test_gme3_the_placeholder() -> None:
    """It stands on the first call alone, and only where no call of the turn is signed."""
    talk = [user("Hi"), assistant(tool_calls=[CALL, OTHER]), tool_result(CALL, "noon"), tool_result(OTHER, "two")]
    assert [part.get("thoughtSignature") for part in contents(talk)[1]["parts"]] == [PLACEHOLDER, None]
    assert changes(talk) == ["lost_reasoning"]
    assert PLACEHOLDER not in json.dumps(contents(talk, quirks=OLD))


def test_gme6_tools_that_are_shown() -> None:
    """Call and response of a built-in tool are two parts, each with its own signature."""
    shown = [
        {"toolCall": {"id": "1"}, "thoughtSignature": "YQ=="},
        {"toolResponse": {"id": "1"}, "thoughtSignature": "Yg=="},
    ]
    reply = read(chunk(shown[0]), chunk(shown[1]), chunk({"text": "Hi"}, finish="STOP"))
    assert reply.tool_calls == []
    assert contents([user("Hi"), reply.message, user("Go on.")])[1]["parts"][:2] == shown


def test_gme7_gme8_a_signed_text() -> None:
    """A signature does not make a thought; the empty part that carries one shows nothing, and goes back."""
    signed = {"text": "", "thoughtSignature": "c2ln"}
    reply = read(
        chunk({"text": "Hel", "thoughtSignature": "YQ=="}), chunk({"text": "lo"}), chunk(signed, finish="STOP")
    )
    assert (reply.text, reply.reasoning) == ("Hello", "")
    assert contents([user("Hi"), reply.message, user("Go on.")])[1]["parts"] == [
        {"text": "Hel", "thoughtSignature": "YQ=="}, {"text": "lo"}, signed,
    ]  # fmt: skip


def test_gme9_signatures_of_elsewhere() -> None:
    """They stay away, and the documented placeholder stands in for them, with a warning."""
    reply = read(chunk(call(signature="c2ln")), chunk(finish="STOP"))
    talk = answered(reply)
    object.__setattr__(talk[1], "origin", "gemini https://elsewhere.test/v1beta")
    assert "c2ln" not in json.dumps(contents(talk))
    assert "lost_reasoning" in changes(talk)


def test_gme10_a_signed_call_whose_arguments_are_wrong() -> None:
    """The signature goes back with the error that the tool reported."""
    reply = read(chunk(call(args='{"at"', signature="c2ln")), chunk(finish="STOP"))
    made = reply.tool_calls[0]
    part = contents([user("Hi"), reply.message, tool_result(made, "not JSON", error=True)])[1]["parts"][0]
    assert part == {"functionCall": {"name": "get_time", "args": {"_raw": '{"at"'}}, "thoughtSignature": "c2ln"}


def test_gme10_arguments_of_elsewhere_that_are_wrong() -> None:
    """They are wrapped, because arguments must be an object here."""
    made = ToolCall("a", "get_time", {"_raw": "{", "_error": "invalid_json"}, "{")
    part = contents([user("Hi"), assistant(tool_calls=[made]), tool_result(made, "not JSON", error=True)])[1]["parts"][
        0
    ]
    assert part["functionCall"]["args"] == {"_raw": "{"}


def test_gme11_every_call_goes_back_once() -> None:
    """As many calls as results."""
    reply = read(chunk(call(args={"at": 1}, signature="c2ln"), call(args={"at": 2})), chunk(finish="STOP"))
    back = contents(answered(reply))
    assert [len(content["parts"]) for content in back] == [1, 2, 2]


def test_gme12_where_the_current_turn_begins() -> None:
    """All calls behind the last words of the user are signed; those before it are not checked."""
    talk: list[Message] = [user("Hi")]
    for at in range(3):
        made = ToolCall(f"call_{at}", "get_time", {}, "{}")
        talk += [assistant(tool_calls=[made]), tool_result(made, "noon")]
    signed = [
        part.get("thoughtSignature")
        for part in (content["parts"][0] for content in contents(talk))
        if "functionCall" in part
    ]
    assert signed == [PLACEHOLDER] * 3
    assert PLACEHOLDER not in json.dumps(contents([*talk, user("So?")]))


def test_signatures_survive_a_tool_that_was_renamed() -> None:
    """A name that Google refuses is sent in another form, and the signed turn still goes back part by part."""
    odd = Tool("天气", "The weather.")
    api_name = sent("Hi", tools=[odd])["tools"][0]["functionDeclarations"][0]["name"]
    decoder = StreamDecoder("gemini", tools=[odd], names=ToolNameMap({api_name: "天气"}, None))
    signed = {"text": "Hm.", "thoughtSignature": "YQ=="}
    decoder.feed(sse(chunk(signed), chunk(call(api_name, signature="c2ln", id="fc_1")), chunk(finish="STOP")))
    decoder.close()
    assert decoder.reply.tool_calls[0].name == "天气"
    assert contents(answered(decoder.reply), tools=[odd])[1]["parts"] == [
        signed,
        {"functionCall": {"name": api_name, "id": "fc_1", "args": {}}, "thoughtSignature": "c2ln"},
    ]


# --- F. requests ------------------------------------------------------------------------------------------------------


@each_row("result", ["noon", ["noon"], {"time": "noon"}, "", None, 12])
def test_gmf1_gmf2_gmf5_results(result: Any) -> None:
    """Under the function's name, as an object, with the role of the user."""
    content = contents([user("Hi"), assistant(tool_calls=[CALL]), tool_result(CALL, result)])[2]
    response = content["parts"][0]["functionResponse"]
    assert (content["role"], response["name"], type(response["response"])) == ("user", "get_time", dict)


def test_gmf3_gmf4_results_stand_alone() -> None:
    """In one content, in the order of the calls; text and images follow in one of their own."""
    talk = [
        user("Hi"), assistant(tool_calls=[CALL, OTHER]), tool_result(OTHER, "two"), tool_result(CALL, "noon"),
        user("And this?", image(PNG)),
    ]  # fmt: skip
    back = contents(talk)
    assert [content["role"] for content in back] == ["user", "model", "user", "user"]
    assert [part["functionResponse"]["response"]["output"] for part in back[2]["parts"]] == ["noon", "two"]
    assert [next(iter(part)) for part in back[3]["parts"]] == ["text", "inlineData"]


def test_gmf6_a_history_that_begins_with_a_call() -> None:
    """A message of the user is added before it."""
    made = preview([assistant(tool_calls=[CALL]), tool_result(CALL, "noon")])
    assert [content["role"] for content in json.loads(made.body)["contents"]] == ["user", "model", "user"]


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "a": {"type": ["string", "null"]},
        "b": {"enum": [1, None, ""], "type": "string"},
        "c": {},
        "d": {"$ref": "#/$defs/D", "description": "The d."},
        "e": {"const": "x"},
    },
    "additionalProperties": False,
    "propertyNames": {"pattern": "^a"},
    "$defs": {"D": {"type": "integer"}},
}


def test_gmf7_gmf8_gmf9_gmf10_gmf11_schemas() -> None:
    """A real schema goes under the name that takes one; for the older name it is converted."""
    tool = Tool("f", "F.", SCHEMA)
    declared = sent("Hi", tools=[tool])["tools"][0]["functionDeclarations"][0]
    assert (declared["parametersJsonSchema"], "parameters" in declared) == (
        {name: value for name, value in SCHEMA.items() if name != "$defs"}  # which may have no description beside it
        | {"properties": {**SCHEMA["properties"], "d": {"type": "integer", "description": "The d."}}},  # type: ignore[dict-item]
        False,
    )
    old = sent("Hi", tools=[tool], quirks={"schemas": "openapi"})["tools"][0]["functionDeclarations"][0]["parameters"]
    assert old == openapi_subset(SCHEMA)[0]
    plain = Tool("f", "F.", {"type": "object", "properties": {"v": {"type": "array", "items": {"type": "string"}}}})
    found = sent("Hi", tools=[plain], quirks={"schemas": "openapi"})["tools"][0]["functionDeclarations"][0][
        "parameters"
    ]
    assert found == {"type": "OBJECT", "properties": {"v": {"type": "ARRAY", "items": {"type": "STRING"}}}}  # no loss
    assert old["properties"]["a"] == {"type": "STRING", "nullable": True}
    assert old["properties"]["d"] == {"type": "INTEGER", "description": "The d."}
    assert old["properties"]["e"]["enum"] == ["x"]
    assert "type" in old["properties"]["c"]
    assert not {"$schema", "additionalProperties", "propertyNames", "$defs"} & old.keys()


def test_gmf12_a_json_answer_beside_tools() -> None:
    """Where the model refuses both, the answer is asked for as a call."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    body = sent("Hi", response_format=schema, quirks=OLD)
    assert "responseMimeType" not in body.get("generationConfig", {})
    assert len(body["tools"][0]["functionDeclarations"]) == 2


def test_gmf13_built_in_tools() -> None:
    """They come through extra_body, with the switch that they need."""
    extra = {"tools": [{"googleSearch": {}}], "toolConfig": {"includeServerSideToolInvocations": True}}
    body = sent("Hi", tool_choice="required", extra_body=extra)
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY"}, "includeServerSideToolInvocations": True,
    }  # fmt: skip
    assert {"googleSearch": {}} in body["tools"]


@pytest.mark.parametrize(
    "asked", [{"tools": [TIME]}, {"tools": [], "messages": [{"role": "system", "content": "x"}, user("Hi")]}]
)
def test_gmf14_a_cache_beside_what_it_holds(asked: dict[str, Any]) -> None:
    """Tools and system messages are refused beside cached content, which has its own."""
    with pytest.raises(ConfigError, match=r"extra_body\.cachedContent can't be combined with"):
        preview(asked.pop("messages", "Hi"), extra_body={"cachedContent": "cachedContents/x"}, **asked)


@pytest.mark.parametrize(
    ("model", "member"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini-3-pro-preview", {"thinkingLevel": "LOW", "includeThoughts": True}),
    ],
)
def test_gmf15_thinking_by_model(model: str, member: dict[str, Any]) -> None:
    """A budget for the older models, a level for the newer ones, and no thoughts are asked for where none are made."""
    found = Provider.from_config(f"gemini:{model}").preview("Hi", reasoning_effort="none")
    assert json.loads(found.body)["generationConfig"]["thinkingConfig"] == member


# --- G. usage ---------------------------------------------------------------------------------------------------------


def test_gmg1_gmg2_gmg3_gmg4_usage() -> None:
    """The last object counts, also where a later count is lower; thoughts are output."""
    counts: list[dict[str, int]] = [
        {"promptTokenCount": 447, "totalTokenCount": 447},
        {"promptTokenCount": 41, "candidatesTokenCount": 2, "thoughtsTokenCount": 300, "totalTokenCount": 343},
        {"promptTokenCount": 41, "candidatesTokenCount": 5, "thoughtsTokenCount": 343, "totalTokenCount": 389},
    ]
    chunks = [chunk({"text": "a"}, usageMetadata=usage) for usage in counts]
    usage = read(*chunks, chunk(finish="STOP")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.total_tokens) == (41, 348, 343, 389)


# --- H. quota and retries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quota", "kind", "wait"),
    [
        ("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", RateLimitError, 38.0),
        ("GenerateRequestsPerDayPerProjectPerModel-FreeTier", QuotaExceededError, None),
    ],
)
def test_gmh1_gmh2_gmh3_quota(quota: str, kind: type[Exception], wait: float | None) -> None:
    """A quota by the minute is waited for as long as Google says; a quota by the day is used up."""
    details = [{"violations": [{"quotaId": quota}]}, {"retryDelay": "38s"}]
    body = {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": details}}
    info = read_google_error(body, 429)
    error = status_error(info)
    assert isinstance(error, kind)
    assert (error.retryable, info.retry_after) == (wait is not None, wait)


def test_gmh5_errors_in_another_shape() -> None:
    """A proxy that answers in OpenAI's shape, with a number as text, is understood."""
    info = read_google_error({"error": {"message": "no key", "type": "auth", "param": None, "code": "401"}}, 401)
    assert type(status_error(info)).__name__ == "AuthenticationError"


def test_gmh7_a_reason_that_google_does_not_have() -> None:
    """The calls beside it are handed out, because their arguments came whole."""
    reply = read(chunk(call(args={"at": 1}), finish="FUNCTION_CALL"))
    assert called(reply) == [("get_time", {"at": 1})]


@each_row("number", ["0", 0.0, True, "first", None])
def test_a_candidate_with_an_odd_index(number: Any) -> None:
    """Only a number above 0 is another candidate; anything else is the answer."""
    body = (
        b"data: "
        + json.dumps(
            {"candidates": [{"index": number, "content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
        ).encode()
    )
    assert assert_any_cut(body + b"\n\n", adapter="gemini").text == "Hi"


def test_null_is_no_error() -> None:
    """`"error": null` beside an answer says that there was none; an error beside an answer wins."""
    answer = chunk(call(args={"at": 1}), finish="STOP")
    assert called(read({**answer, "error": None})) == [("get_time", {"at": 1})]
    assert isinstance(fails({**answer, "error": {"code": 500, "message": "late"}}), UpstreamError)


@pytest.mark.parametrize("numbers", [(None, None), (None, 1), (0, None), (0, 1), (1, None), (1, 0)])
def test_one_candidate_is_the_answer(numbers: tuple[int | None, int | None]) -> None:
    """Without numbers, the place counts: two candidates are never one answer. Google leaves the number 0 out."""
    parts = [{"text": "a"}] if numbers[0] != 1 else [{"text": "b"}, call()]
    others = [{"text": "b"}, call()] if numbers[0] != 1 else [{"text": "a"}]
    candidates = [
        {"content": {"parts": said}, "finishReason": "STOP", **({} if number is None else {"index": number})}
        for said, number in zip((parts, others), numbers, strict=True)
    ]
    reply = read({"candidates": candidates})
    assert (reply.text, reply.tool_calls, codes(reply)) == ("a", [], ["extra_choice"])


def test_a_call_without_name_and_arguments() -> None:
    """It is no call, and that is said; an object without members is the end of a call in pieces."""
    reply = read(chunk({"text": "Hi"}, {"functionCall": {"args": {}}}, finish="STOP"))
    assert (reply.text, reply.tool_calls, codes(reply)) == ("Hi", [], ["calls_dropped"])
    reply = read(chunk(call(args={"at": 1}), {"functionCall": {"args": {}}}, finish="STOP"))
    assert (called(reply), codes(reply)) == ([("get_time", {"at": 1})], ["calls_dropped"])
