"""Errors that a server reports inside a 200 answer, and what its words and status codes mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import (
    DONE,
    assert_any_cut,
    assert_any_cut_error,
    call,
    calls,
    chunk,
    codes,
    entry,
    event,
    fin,
    fold_error,
    text,
)
from streamfold import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    UpstreamError,
    Usage,
)
from streamfold.errors import ErrorInfo, error_info, status_error
from tables import each_row


def upstream(body: bytes) -> UpstreamError:
    """The UpstreamError in which a body ends, however it is cut."""
    error = assert_any_cut_error(body)
    assert isinstance(error, UpstreamError)
    return error


def upstream_whole(body: bytes) -> UpstreamError:
    """The UpstreamError in which an uncut body ends, for long tables."""
    error = fold_error(body)
    assert isinstance(error, UpstreamError)
    return error


def partial_text(error: UpstreamError) -> str:
    """The text that had come before the error."""
    assert error.partial is not None
    return error.partial.text


# --- errors inside the stream ----------------------------------------------------------------------------------------


def test_e1_error_object() -> None:
    """An error object in mid-stream is raised with its message, status, retry verdict and the text so far."""
    payload = {"error": {"message": "overloaded", "code": 503}}
    error = upstream(text("Hel") + event(payload) + text("lo") + fin("stop") + DONE)
    assert error.message == "overloaded"
    assert (error.type, error.code, error.status_code) == (None, None, 503)
    assert error.retryable
    assert error.body == payload
    assert partial_text(error) == "Hel"
    assert error.transcript[-1] == json.dumps(payload)


def test_e1_error_object_first() -> None:
    """An error as the first event of a 200 answer is the same error, with an empty partial answer."""
    error = upstream(event({"error": {"message": "overloaded", "type": "engine_overloaded_error"}}))
    assert (error.message, error.type) == ("overloaded", "engine_overloaded_error")
    assert error.retryable
    assert partial_text(error) == ""


def test_e1_error_is_null() -> None:
    """`error: null` in a chunk is no error."""
    reply = assert_any_cut(chunk({"content": "a"}, error=None) + chunk({}, "stop", error=None) + DONE)
    assert reply.text == "a"
    assert codes(reply) == []


@each_row(
    ("error", "retryable"),
    [
        ({"message": "m", "type": "rate_limit_error"}, True),
        ({"message": "m", "type": "tokens", "code": "rate_limit_exceeded"}, True),
        ({"message": "m", "type": "overloaded_error"}, True),
        ({"message": "m", "type": "InternalServerError", "code": 500}, True),
        ({"message": "m", "type": "server_error", "code": None}, True),
        ({"message": "m", "code": "502"}, True),
        ({"message": "m", "code": 429}, True),
        ({"message": "m", "code": 429, "type": "insufficient_quota"}, False),
        ({"message": "m", "code": 402}, False),
        ({"message": "m", "type": "exceeded_current_quota_error"}, False),
        ({"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"}, False),
        ({"message": "m", "type": "BadRequestError", "code": 400}, False),
        ({"message": "m"}, False),
    ],
)
def test_e1_whether_a_retry_may_help(error: dict[str, Any], retryable: bool) -> None:
    """Whether a retry may help is decided by code, type and status, and never by words in the message."""
    assert upstream_whole(event({"error": error})).retryable is retryable


def test_e1_message_with_half_a_character() -> None:
    """An error message with half a surrogate pair in it can be printed."""
    error = upstream(b'data: {"error": {"message": "bad \\ud83d emoji"}}\n\n')
    assert error.message == "bad \ufffd emoji"
    assert str(error).encode()


def test_e1_error_nested_too_deeply() -> None:
    """An error object that is nested hundreds of levels deep is still one of our errors."""
    body = b'data: {"error":' + b'{"message":' * 600 + b'"x"' + b"}" * 600 + b"}\n\n"
    assert type(assert_any_cut_error(body)) in (UpstreamError, ProtocolError)


def test_e2_error_is_a_string() -> None:
    """An error that is a bare string is its own message."""
    error = upstream(text("Hel") + event({"error": "overloaded"}))
    assert error.message == "overloaded"
    assert partial_text(error) == "Hel"


def test_e2_a_string_is_not_classified_by_its_words() -> None:
    """A bare string names neither type nor status, so nothing is concluded from its words."""
    error = upstream(event({"error": "rate limit: overloaded 503"}))
    assert (error.type, error.code, error.status_code, error.retryable) == (None, None, None, False)


@each_row("error", [True, 1, ["boom"], {"code": "boom"}])
def test_e2_error_of_another_kind(error: object) -> None:
    """Whatever is in `error`, it is an error and has a message."""
    assert upstream(text("a") + event({"error": error})).message


@each_row(
    ("data", "message"),
    [
        ('{"message":"overloaded","code":503}', "overloaded"),
        ('{"error":{"message":"overloaded","code":503}}', "overloaded"),
        ('{"error":"overloaded"}', "overloaded"),
        ('{"detail":"overloaded"}', "overloaded"),
        ('"overloaded"', "overloaded"),
        ("overloaded", "overloaded"),
        ("server is overloaded: {1", "server is overloaded: {1"),
        ("null", "the server gave no message"),
        ("{}", "the server gave no message"),
        ("[]", "the server gave no message"),
    ],
)
def test_e3_event_named_error(data: str, message: str) -> None:
    """An event named error is an error whatever its data is, JSON or plain words (openai-python#2796, Groq)."""
    error = upstream(text("Hel") + f"event: error\ndata: {data}\n\n".encode() + fin("stop") + DONE)
    assert error.message == message
    assert partial_text(error) == "Hel"


def test_e3_event_named_error_without_a_text() -> None:
    """An event named error whose data is empty is an error without a message, not a keep-alive."""
    error = upstream(text("Hel") + b"event: error\ndata:\n\n" + DONE)
    assert error.message == "the server gave no message"


def test_e3_event_named_error_over_several_lines() -> None:
    """The plain words of an error event may take several data lines."""
    assert upstream(b"event: error\ndata: out of memory\ndata: try later\n\n").message == "out of memory\ntry later"


@each_row(
    "line",
    [
        b'error: {"error": {"code": 500, "message": "context shift is disabled", "type": "server_error"}}',
        b'error: {"code": 500, "message": "context shift is disabled", "type": "server_error"}',
        b'error:{"message": "context shift is disabled", "code": 500}',
        b"error: context shift is disabled",
    ],
)
def test_e3_error_as_a_field(line: bytes) -> None:
    """llama.cpp reports a failure in a field of its own name, which the standard would skip (GPUStack)."""
    error = upstream(text("Hel") + line + b"\n\n")
    assert error.message == "context shift is disabled"
    assert partial_text(error) == "Hel"


def test_e3_the_name_of_one_event_is_not_that_of_the_next() -> None:
    """After an event with a name of its own an event without one is an ordinary chunk."""
    body = b"event: chunk\n" + text("a") + text("b") + b"event: message\n" + fin("stop") + DONE
    assert assert_any_cut(body).text == "ab"


def test_e4_plain_words_as_data() -> None:
    """Plain words where a chunk is expected are shown in the error, with the partial answer (mistral.rs#1874)."""
    error = assert_any_cut_error(text("Hel") + b"data: Number of choices must be greater than 0.\n\n")
    assert type(error) is ProtocolError
    assert "'Number of choices must be greater than 0.'" in error.message
    assert error.body == "Number of choices must be greater than 0."
    assert error.partial is not None
    assert error.partial.text == "Hel"


def test_e5_finish_reason_error_with_the_error_in_the_choice() -> None:
    """The error inside a choice is raised with its own message and code (OpenRouter)."""
    choice = {
        "index": 0,
        "delta": {"content": "lo"},
        "finish_reason": "error",
        "error": {"code": 502, "message": "Upstream idle timeout", "metadata": {"provider_name": "x"}},
    }
    error = upstream(text("Hel") + event({"id": "c1", "choices": [choice]}) + DONE)
    assert (error.message, error.status_code, error.retryable) == ("Upstream idle timeout", 502, True)
    assert partial_text(error) == "Hello"


@pytest.mark.parametrize("reason", ["error", "stop", None])
def test_e5_error_beside_choices(reason: str | None) -> None:
    """A top-level error beats the choices in its event, and the finish reason in them (OpenRouter)."""
    error = upstream(
        text("Hel") + chunk({"content": "lo"}, reason, error={"code": "server_error", "message": "lost"}) + DONE
    )
    assert (error.message, error.code, error.retryable) == ("lost", "server_error", True)
    assert partial_text(error) == "Hello"


def test_e5_error_beside_the_finish_reason_of_a_call() -> None:
    """An error in the very event that has the finish reason drops the calls."""
    body = call(entry(0, "a", "f", "{}")) + chunk({}, "tool_calls", error={"message": "lost"}) + DONE
    assert upstream(body).message == "lost"


def test_success_in_words_is_no_error() -> None:
    """A code of 0 beside a message is success, also in an event without choices (iFlytek's Spark)."""
    reply = assert_any_cut(
        event({"code": 0, "message": "Success", "choices": [{"index": 0, "delta": {"content": "Hi"}}]})
        + fin("stop")
        + event({"code": 0, "message": "Success", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
        + DONE
    )
    assert (reply.text, reply.finish_reason, codes(reply)) == ("Hi", "stop", [])
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 1)
    assert upstream(text("Hi") + event({"code": 10013, "message": "audited"})).message == "audited"


def test_e5_error_in_x_groq() -> None:
    """Groq reports a failure inside `x_groq`."""
    assert upstream(text("Hel") + chunk({}, x_groq={"id": "r1", "error": "over capacity"})).message == "over capacity"


@each_row(
    "failure",
    [
        event({"error": {"message": "billing failed"}}),
        b'event: error\ndata: {"message": "billing failed"}\n\n',
        b"event: error\ndata: billing failed\n\n",
        b'error: {"message": "billing failed"}\n\n',
    ],
)
def test_e6_error_after_the_finish_reason(failure: bytes) -> None:
    """An error after the finish reason leaves the answer as it is, calls included, and adds a warning."""
    body = text("a") + call(entry(0, "a", "f", '{"x":1}')) + fin("tool_calls") + failure + text("!") + DONE
    reply = assert_any_cut(body)
    assert (reply.text, reply.finish_reason) == ("a", "tool_calls")
    assert calls(reply) == [("a", "f", {"x": 1})]
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [("error_after_finish", "billing failed")]


def test_e6_usage_before_the_late_error() -> None:
    """Usage that came between the finish reason and the error is on the reply."""
    body = text("a") + fin("stop") + event({"choices": [], "usage": {"prompt_tokens": 3}}) + event({"error": "late"})
    assert assert_any_cut(body).usage == Usage(3, raw={"prompt_tokens": 3})


# --- the shapes of an error ------------------------------------------------------------------------------------------


SHAPES = [
    {"error": {"message": "no such model"}},
    {"error": {"error": {"message": "no such model"}}},
    {"error": {"message": {"detail": "no such model"}}},
    {"error": {"msg": "no such model"}},
    {"error": ["no such model"]},
    {"error": [{"message": "no such model"}]},
    {"error": "no such model"},
    {"error": {"message": "  no such model\n"}},
    {"type": "error", "error": {"type": "not_found_error", "message": "no such model"}},
    {"object": "error", "message": "no such model", "type": "NotFoundError", "param": None, "code": 404},
    {"code": "ModelNotFound", "message": "no such model", "request_id": "r1"},
    {"code": 1211, "msg": "no such model", "success": False},
    {"message": "no such model"},
    {"detail": "no such model"},
    {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "no such model"}]},
    {"detail": {"message": "no such model"}},
    {"error_code": 336003, "error_msg": "no such model"},
    {"error_message": "no such model"},
    {"success": False, "errors": [{"code": 7003, "message": "no such model"}], "result": None},
]


@each_row("body", [*SHAPES, {"title": "no such model", "status": 404}])
def test_e9_shapes_of_an_error(body: Any) -> None:
    """The message is found in every shape that servers use for an error."""
    assert error_info(body).message == "no such model"


@each_row("body", SHAPES)
def test_e9_shapes_of_an_error_inside_a_stream(body: Any) -> None:
    """Every shape of an error is one inside a stream too, where no `choices` stand beside it."""
    error = upstream_whole(text("Hel") + event(body))
    assert error.message == "no such model"
    assert partial_text(error) == "Hel"


@each_row("body", SHAPES)
def test_e9_d19_shapes_of_an_error_as_the_whole_body(body: Any) -> None:
    """Every shape of an error is one as the whole body of a 200 answer, in the server's own words."""
    error = upstream_whole(json.dumps(body).encode())
    assert (error.message, error.body) == ("no such model", body)


@each_row("name", ["message", "msg", "detail", "error_msg"])
def test_e9_error_with_empty_choices(name: str) -> None:
    """An error that comes with `choices: null` or `[]`, as in a chunk, is still an error."""
    assert upstream(event({"id": "", "choices": None, name: "no such model"})).message == "no such model"
    assert upstream(event({"id": "", "choices": [], name: "no such model"})).message == "no such model"


@each_row(
    "body",
    [None, "", "  \n", [], [[]], [None], {}, {"error": None}, {"error": {}}, {"error": []}, {"message": 5}, 5, True],
)
def test_e9_there_is_always_a_message(body: Any) -> None:
    """A body that says nothing has a message as well: that it says nothing."""
    assert error_info(body) == ErrorInfo("the server gave no message")


@each_row(
    ("body", "message"),
    [
        ({"status": 503, "error": "Unavailable", "message": "too busy", "path": "/v1"}, "Unavailable: too busy"),
        ({"statusCode": 400, "message": ["x is missing"], "error": "Bad Request"}, "Bad Request: x is missing"),
        (
            {"error": "invalid_client", "error_description": "the key has expired"},
            "invalid_client: the key has expired",
        ),
        ({"error": "too busy", "message": "too busy"}, "too busy"),
        ({"fault": {"faultstring": "too busy"}}, 'the server gave no message: {"fault": {"faultstring": "too busy"}}'),
        ({"error": {"message": {"a": "日本"}}}, 'the server gave no message: {"message": {"a": "日本"}}'),
        ({"error": {"code": "boom"}}, 'the server gave no message: {"code": "boom"}'),
    ],
)
def test_e9_what_is_said_beside_the_usual_members_is_not_lost(body: Any, message: str) -> None:
    """The name of an error and its message are both told, and an object of an unknown shape is shown as it is."""
    assert error_info(body).message == message


def test_e9_text_and_markup_are_their_own_message() -> None:
    """A body that is not JSON is its own message."""
    assert error_info("upstream connect error\n").message == "upstream connect error"
    assert error_info("<html>502 Bad Gateway</html>").message == "<html>502 Bad Gateway</html>"


def test_e9_a_list_of_errors() -> None:
    """Google wraps the error object in a list; the first one speaks."""
    body = [{"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}, {"error": "second"}]
    assert error_info(body) == ErrorInfo("slow down", status=429)


@each_row(
    ("body", "info"),
    [
        ({"error": {"message": "m", "code": 503}}, ErrorInfo("m", status=503)),
        ({"error": {"message": "m", "code": "503"}}, ErrorInfo("m", status=503)),
        ({"error": {"message": "m", "code": "1302"}}, ErrorInfo("m", code="1302")),
        ({"error": {"message": "m", "code": 1302}}, ErrorInfo("m", code="1302")),
        ({"error": {"message": "m", "type": "t", "code": "c", "status": 400}}, ErrorInfo("m", "t", "c", 400)),
        ({"error": {"message": "m", "param": "messages[1]"}}, ErrorInfo("m", param="messages[1]")),
        ({"error": {"message": "m", "type": "t", "code": None, "param": None}}, ErrorInfo("m", "t")),
        ({"error": {"message": "m", "type": "", "code": ""}}, ErrorInfo("m")),
        ({"error": {"message": "m", "type": 5, "code": {"x": 1}}}, ErrorInfo("m")),
        ({"error": {"message": "m", "code": None}, "code": 503}, ErrorInfo("m", status=503)),
        ({"error": "m", "code": "c", "type": "t", "status_code": 500}, ErrorInfo("m", "t", "c", 500)),
        ({"error": {"message": "m", "code": True, "status": 99}}, ErrorInfo("m")),
        ({"error": {"message": "m"}, "status": 200}, ErrorInfo("m")),
    ],
)
def test_e9_the_words_beside_the_message(body: Any, info: ErrorInfo) -> None:
    """Type, code and status are read from the error or from what is round it; a status in `code` is a status."""
    assert error_info(body) == info


def test_e9_the_status_of_the_answer_comes_first() -> None:
    """The HTTP status of the answer is the status, whatever a proxy wrote into the body."""
    assert error_info({"error": {"message": "m", "code": 500}}, status=429).status == 429


# --- what status and words mean --------------------------------------------------------------------------------------


@each_row(
    ("status", "kind", "retryable"),
    [
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (402, QuotaExceededError, False),
        (403, PermissionDeniedError, False),
        (404, NotFoundError, False),
        (405, BadRequestError, False),
        (408, APIStatusError, True),
        (409, APIStatusError, True),
        (413, BadRequestError, False),
        (422, BadRequestError, False),
        (425, APIStatusError, True),
        (429, RateLimitError, True),
        (500, ServerError, True),
        (502, ServerError, True),
        (503, ServerError, True),
        (504, ServerError, True),
        (529, ServerError, True),
        (302, APIStatusError, False),
    ],
)
def test_l8_status_alone(status: int, kind: type[APIStatusError], retryable: bool) -> None:
    """Without any words the status says what happened and whether a retry may help."""
    error = status_error(error_info("m", status=status))
    assert type(error) is kind
    assert (error.status_code, error.code, error.retryable) == (status, None, retryable)
    assert error.message == f"m (HTTP {status})"


@each_row(
    ("status", "error", "kind", "retryable"),
    [
        (429, {"type": "insufficient_quota", "code": "insufficient_quota"}, QuotaExceededError, False),
        (429, {"type": "requests", "code": "rate_limit_exceeded"}, RateLimitError, True),
        (429, {"type": "tokens", "code": "insufficient_quota"}, QuotaExceededError, False),
        (429, {"type": "INSUFFICIENT_QUOTA"}, QuotaExceededError, False),
        (403, {"code": "billing_not_active"}, QuotaExceededError, False),
        (400, {"code": "billing_hard_limit_reached"}, QuotaExceededError, False),
        (500, {"type": "exceeded_current_quota_error"}, QuotaExceededError, False),
        (402, {"message": "Insufficient Balance", "type": "unknown_error"}, QuotaExceededError, False),
        (429, {"type": "invalid_request_error"}, RateLimitError, False),
        (500, {"type": "invalid_request_error"}, ServerError, False),
        (400, {"type": "engine_overloaded_error"}, APIStatusError, True),
        (400, {"code": "server_is_overloaded"}, APIStatusError, True),
        (400, {"type": "invalid_request_error", "code": "rate_limit_exceeded"}, APIStatusError, True),
        (403, {"type": "rate_limit_error"}, PermissionDeniedError, True),
        (400, {"type": "something_new"}, BadRequestError, False),
        (503, {"type": "something_new"}, ServerError, True),
    ],
)
def test_l8_words_before_status(
    status: int, error: dict[str, str], kind: type[APIStatusError], retryable: bool
) -> None:
    """Quota is not speed: code and type decide first, the status only where they say nothing."""
    made = status_error(error_info({"error": {"message": "m", **error}}, status=status))
    assert type(made) is kind
    assert made.retryable is retryable
    assert made.code == (error.get("code") or error.get("type"))


@each_row(
    ("status", "word", "kind", "retryable"),
    [
        (400, "content_filter", ContentFilterError, False),
        (400, "invalid_request_error", BadRequestError, False),
        (401, "invalid_authentication_error", AuthenticationError, False),
        (401, "incorrect_api_key_error", AuthenticationError, False),
        (403, "permission_denied_error", PermissionDeniedError, False),
        (404, "resource_not_found_error", NotFoundError, False),
        (429, "engine_overloaded_error", RateLimitError, True),
        (429, "rate_limit_reached_error", RateLimitError, True),
        (429, "exceeded_current_quota_error", QuotaExceededError, False),
        (500, "server_error", ServerError, True),
        (500, "unexpected_output", ServerError, True),
    ],
)
def test_l8_words_of_moonshot(status: int, word: str, kind: type[APIStatusError], retryable: bool) -> None:
    """Each type of Moonshot's error table has its class and its retry verdict, as a status and inside a stream."""
    body = {"error": {"type": word, "message": "m"}}
    made = status_error(error_info(body, status=status))
    assert type(made).__name__ == kind.__name__
    assert (made.code, made.retryable) == (word, retryable)
    inside = upstream_whole(text("Hel") + event(body))
    status_inside = 402 if kind is QuotaExceededError else None
    assert (inside.type, inside.status_code, inside.retryable) == (word, status_inside, retryable)


def test_l8_details_of_the_request_are_passed_on() -> None:
    """What the transport knows about the answer ends up on the error and in its text."""
    error = status_error(
        error_info({"error": {"message": "slow down"}}, status=429),
        provider="kimi",
        request_id="r1",
        retry_after=2.5,
        body={"error": {"message": "slow down"}},
    )
    assert (error.provider, error.request_id, error.retry_after) == ("kimi", "r1", 2.5)
    assert error.body == {"error": {"message": "slow down"}}
    assert error.partial is None
    assert str(error) == "kimi: slow down (HTTP 429) (request id r1)"
