"""Rewrites streams of Chat Completions.

The patcher writes text, tool calls, usage and the finish reason from the decoder's deltas. From the server's chunks, it
copies all other fields: log probabilities, fingerprints, filter results and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamfold import NamedTool, Reply, Usage
from streamfold.adapters import Delta, ExtraPart, ReasoningDelta, ToolCallDelta, as_count
from streamfold.serving import CHAT_REASONING_MEMBERS, ChatSerializer, SerializedCall, reply_deltas

from .base import UNMODELLED, StreamPatcher, dict_or_empty, dicts_in

_WRITTEN = frozenset({"id", "object", "created", "model", "choices", "usage", "error"})
_WRITTEN_OF_CHOICE = frozenset({"index", "delta", "message", "finish_reason"})
_WRITTEN_OF_DELTA = frozenset({"role", "content", "refusal", "tool_calls", "function_call", *CHAT_REASONING_MEMBERS})
_SCALAR = (str, int, float, type(None))  # values that each event repeats, so that the last one is enough
_OF_THE_ANSWER = ("system_fingerprint", "service_tier")  # fields of every chunk


class ChatStreamPatcher(ChatSerializer, StreamPatcher):
    """Rewrites a streamed completion, including the fields of its events that no delta contains.

    Args:
        request: the body of the client's request.
        others: see `ChatSerializer`.

    Attributes:
        calls_have_ids: False for a `function_call` of the deprecated API, which has no id.
    """

    def __init__(self, *, request: Mapping[str, Any], **others: Any) -> None:
        options = request.get("stream_options")
        wanted = isinstance(options, Mapping) and options.get("include_usage") is True
        super().__init__(id="", model=str(request.get("model") or ""), include_usage=wanted, **others)
        self._rest: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = ({}, {}, {})  # of chunk, choice, delta
        self._scalars: dict[str, Any] = {}  # other scalar fields of chunks
        self._last_scalars: dict[str, Any] = {}  # those of the last chunk
        self._listed: dict[str, int] = {}  # the number of entries in each list of the deltas
        self._counts_beside_choice = False  # the usage arrived in a chunk with a choice
        self._has_model = False
        self._custom: dict[Any, SerializedCall] = {}  # calls of custom tools, by the server's index
        self._numbers: set[int] = set()  # the indexes of the server's calls
        self._choices = 0  # the number of choices that have begun
        self._has_text = False  # a delta had text
        self._followed: set[int] = set()  # the indexes of the calls in forwarded chunks
        self._reasoning_names: dict[str, None] = {}
        self._around: Any = None  # the last chunk without its text
        # The answer to a request with `functions` has one `function_call`, which has no id. Programs that send
        # `functions` read nothing else: https://platform.openai.com/docs/api-reference/chat/object (deprecated).
        self._has_functions = bool(request.get("functions"))
        forced = self.tool_choice if not self._has_functions else request.get("function_call")
        self.reason_names_calls = not isinstance(forced, NamedTool | Mapping)  # OpenAI ends such a call with `stop`

    def is_duplicate(self, payload: Any) -> bool:
        match payload:
            case {"choices": [{"delta": {"content": str(), **delta}, **choice}], **chunk}:
                around = delta, choice, chunk
                if around == self._around:
                    return True
                only_place = choice.get("index") == 0 and not any(choice.values())
                is_plain = only_place and delta.keys() <= {"role"}
                is_plain = is_plain and all(isinstance(value, _SCALAR) for value in chunk.values())
                self._around = around if is_plain else None
            case _:
                self._around = None
        return False

    def accepts(self, payload: Any, name: str) -> bool:
        choices = payload.get("choices", []) if isinstance(payload, dict) else None
        # OpenAI's stream helper ignores chunks without this `object`.
        is_chunk = not choices or payload.get("object") == "chat.completion.chunk"
        right = is_chunk and isinstance(choices, list) and all(map(self._is_choice, choices))
        return right and all(map(self._counts, _entries(payload)))

    def _is_choice(self, choice: Any) -> bool:
        match choice:
            case {"index": int(place), "delta": dict(delta)} if not choice.get("error"):
                texts = [choice.get("finish_reason"), *map(delta.get, ("content", *CHAT_REASONING_MEMBERS))]
                calls = delta.get("tool_calls") or []
                if self._has_functions and not calls and (function := delta.get("function_call")):
                    named = dict_or_empty(function)
                    if not named or not _are_texts([named.get("name"), named.get("arguments")]):
                        return False
                    self.calls_have_ids = False
                in_order = 0 <= place <= self._choices  # clients store choices in a list (llamacpp/two_choices)
                self._choices = max(self._choices, place + 1)
                self._has_text = self._has_text or bool(delta.get("content"))
                in_order = in_order and (bool(delta) or self._has_told(choice.get("message")))
                right = in_order and _are_texts(texts) and isinstance(calls, list) and all(map(_is_entry, calls))
                rest = delta.keys() - _WRITTEN_OF_DELTA
                return right and all(self._is_numbered(name, delta[name]) for name in rest)
        return False

    def _has_told(self, message: Any) -> bool:
        """Returns True if earlier chunks already contained the text and the tool calls of a complete `message` object.
        Some clients ignore this object.
        """
        if not isinstance(message, dict):
            return True
        calls = message.get("tool_calls")
        has_calls = not isinstance(calls, list) or len(calls) <= len(self._numbers)
        return has_calls and (self._has_text or not message.get("content"))

    def _is_numbered(self, name: str, value: Any) -> bool:
        """Returns True if OpenAI's client can merge a value with the values of earlier chunks. The client needs an
        `index` in each item of a list."""
        if isinstance(value, dict):
            return all(self._is_numbered(f"{name}.{inner}", one) for inner, one in value.items())
        is_first = not isinstance(value, list) or not self._listed.get(name)
        return is_first or all("index" in one for one in value if isinstance(one, dict))

    def _counts(self, entry: Mapping[str, Any]) -> bool:
        """Returns True if a tool call's index was used before or is the next unused index. Clients that store tool
        calls in a list fail for other indexes (calls/index_from_one)."""
        right = entry["index"] in self._numbers or entry["index"] == len(self._numbers)
        self._numbers.add(entry["index"])
        return right

    def follows(self, payload: Any) -> bool:
        self._rest, self.begun = ({}, {}, {}), True
        self._followed.update(entry["index"] for entry in _entries(payload))
        self._followed.update(range(0 if self.calls_have_ids else len(self.calls)))
        return len(self._followed) == len(self.calls)

    def extras_of(self, payload: Any) -> list[ExtraPart]:
        if not isinstance(payload, dict):
            return []
        choices = payload.get("choices")
        choice = next((one for one in choices if isinstance(one, dict) and not one.get("index")), {}) if choices else {}
        delta = dict_or_empty(choice.get("delta") or choice.get("message"))
        # All chunks get the id, the model and the time of the first.
        said_id, model, created = payload.get("id"), payload.get("model"), payload.get("created")
        if not self.id and isinstance(said_id, str):
            self.id = said_id
        if not self._has_model and isinstance(model, str) and model:
            self.model, self._has_model = model, True
        if not self.created and isinstance(created, int | float):
            self.created = as_count(created) or 0
        if payload.get("usage"):
            self._counts_beside_choice = bool(choices)
        names = [name for name in CHAT_REASONING_MEMBERS if isinstance(delta.get(name), str)]
        self._reasoning_names |= dict.fromkeys(names)
        chunk_rest = {name: value for name, value in payload.items() if name not in _WRITTEN}
        scalars = {name: value for name, value in chunk_rest.items() if isinstance(value, _SCALAR)}
        new, self._last_scalars = ({} if scalars == self._last_scalars else scalars), scalars
        delta_rest = {name: value for name, value in delta.items() if name not in _WRITTEN_OF_DELTA}
        delta_rest |= {name: None for name in CHAT_REASONING_MEMBERS if name in delta and delta[name] is None}
        delta_rest = {name: self._numbered(name, value) for name, value in delta_rest.items()}
        calls = dicts_in(delta.get("tool_calls"))
        # Calls of custom tools have plain text as input, which is never repaired.
        if custom := [call for call in calls if call.get("type") == "custom" or "custom" in call]:
            delta_rest["tool_calls"] = custom
        rests = (
            new,
            {name: value for name, value in chunk_rest.items() if not isinstance(value, _SCALAR)},
            {name: value for name, value in choice.items() if name not in _WRITTEN_OF_CHOICE},
            delta_rest,
        )
        return [ExtraPart(UNMODELLED, rests)] if any(rests) else []

    def _keep(self, *rests: dict[str, Any]) -> None:
        """Stores fields for the next chunk. If stored fields with these names exist, first writes a chunk with the
        stored fields."""
        said = [{name: value for name, value in rest.items() if value is not None} for rest in rests]
        if any(kept.keys() & new.keys() for kept, new in zip(self._rest, said, strict=True)):
            self.write_delta({})
        for kept, rest in zip(self._rest, rests, strict=True):
            for name, value in rest.items():
                if value is not None or name not in kept:
                    kept[name] = value

    def _numbered(self, name: str, value: Any) -> Any:
        """Adds an `index` to the objects in a value's lists. The index counts the objects in the complete response.

        OpenAI's client raises an error if objects in a delta's list have no `index`
        (fixtures/litellm/anthropic_think_say_call).
        """
        if isinstance(value, dict):
            return {inner: self._numbered(f"{name}.{inner}", one) for inner, one in value.items()}
        if not isinstance(value, list):
            return value
        start = self._listed.get(name, 0)
        self._listed[name] = start + len(value)
        return [{"index": at, **one} if isinstance(one, dict) else one for at, one in enumerate(value, start)]

    def send(self, payload: dict[str, Any], event_name: str | None = None) -> None:
        if "choices" not in payload:  # an error
            super().send(payload, event_name)
            return
        of_chunk, of_choice, of_delta = self._rest
        if choices := payload["choices"]:
            choice = choices[0]
            calls = [*choice["delta"].get("tool_calls", ()), *of_delta.pop("tool_calls", ())]
            delta = {**of_delta, **choice["delta"], **({"tool_calls": calls} if calls else {})}
            choices = [{**of_choice, **choice, "delta": delta}]
            self._rest = ({}, {}, {})
        else:
            self._rest = ({}, of_choice, of_delta)
        scalars = self._scalars
        self._scalars = {name: scalars[name] for name in _OF_THE_ANSWER if name in scalars}
        super().send({**scalars, **of_chunk, **payload, "choices": choices}, event_name)

    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        if self.calls_have_ids:
            super().write_call_piece(call, piece, first=first)
        else:
            self.write_delta({"function_call": {**({"name": call.name} if first else {}), "arguments": piece}})

    def write_delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        is_function = finish_reason == "tool_calls" and not self.calls_have_ids
        super().write_delta(delta, "function_call" if is_function else finish_reason)

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        names = self._reasoning_names or ("reasoning_content",)
        self.write_delta(dict.fromkeys(names, delta.text))

    def feed(self, delta: Delta) -> bytes:
        if not (isinstance(delta, ToolCallDelta) and delta.ended):
            return super().feed(delta)
        kept, self._rest = self._rest, ({}, {}, {})  # the end of a call doesn't belong to the event that follows
        out = super().feed(delta)
        self._rest = kept
        return out

    def write_extra(self, name: str, value: Any) -> None:
        """Stores the server's fields for the next chunk. Ignores other `ExtraPart`s, which were written with the
        server's chunks."""
        if name == UNMODELLED:
            scalars, *rests, of_delta = value
            self._scalars |= scalars
            if calls := of_delta.get("tool_calls"):
                of_delta = {**of_delta, "tool_calls": [self._placed(call) for call in calls]}
            self._keep(*rests, of_delta)

    def _placed(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Returns a piece of a custom tool call with the tool call's index in the rewritten response."""
        place = entry.get("index")
        if place not in self._custom:
            self._custom[place] = self.reserve_call(str(entry.get("id") or ""), "", "")
            self._custom[place].opened = True
        return {**entry, "index": self._custom[place].number}

    def usage_object(self, usage: Usage) -> dict[str, Any]:
        return dict(usage.raw) if "prompt_tokens" in usage.raw else super().usage_object(usage)

    def write_end(self) -> None:
        if self._counts_beside_choice:  # by OpenRouter, whose clients take the choice of every chunk (magentic 0.41)
            self.include_usage = False
        if self.usage is not None and not self.include_usage:
            # Programs that didn't request usage read the choice of every chunk.
            self._rest[0]["usage"] = self.usage_object(self.usage)
            if self.finish_reason is None and not self.fill_finish_reason:
                self.write_delta({})
        super().write_end()

    def is_unfinished(self, body: Any) -> bool:
        return isinstance(body, dict) and body.get("choices") == [] and not body.get("error")

    def patch_body(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        serializer = ChatSerializer(
            id="", model="", tool_choice=self.tool_choice, fill_finish_reason=self.fill_finish_reason
        )
        [made] = serializer.serialize_whole(reply_deltas(reply))["choices"]
        written, reason = made["message"], made["finish_reason"]
        choices = list(body["choices"])
        at = next((at for at, one in enumerate(choices) if not one.get("index")), None)
        if at is None:
            return body
        given = dict_or_empty(choices[at].get("message"))
        repaired: dict[str, Any] = {}
        if self._has_functions and given.get("function_call") and not given.get("tool_calls"):
            calls = [(None, call.name, call.raw_arguments) for call in reply.tool_calls]
            if calls != _calls([{"function": given["function_call"]}]):
                repaired["function_call"] = next(({"name": name, "arguments": text} for _, name, text in calls), None)
            if reason == "tool_calls":
                is_stop = not self.reason_names_calls and choices[at].get("finish_reason") == "stop"
                reason = "stop" if is_stop else "function_call"
        elif _calls(given.get("tool_calls")) != _calls(written.get("tool_calls")) or given.get("function_call"):
            repaired |= {"function_call": None, "tool_calls": written.get("tool_calls")}
        content = given.get("content")
        if isinstance(content, str | None) and (content or None) != written["content"]:
            repaired["content"] = written["content"]
        is_told = any(given.get(name) for name in (*CHAT_REASONING_MEMBERS, "reasoning_details"))
        if reply.reasoning and not is_told and ("content" in repaired or not given):  # it was in another field
            repaired["reasoning_content"] = reply.reasoning
        if repaired:
            message = {name: value for name, value in {**given, **repaired}.items() if name != "function_call" or value}
            choices[at] = {**choices[at], "message": message}
        if choices[at].get("finish_reason") != reason:
            choices[at] = {**choices[at], "finish_reason": reason}
        return {**body, "choices": choices}


def _entries(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    first = [choice["delta"] for choice in payload.get("choices") or () if not choice["index"]]
    return [entry for delta in first for entry in delta.get("tool_calls") or ()]


def _is_entry(call: Any) -> bool:
    match call:
        case {"index": int(), "custom": dict()}:
            return True
        case {"index": int(), "function": dict(function)}:
            # OpenAI's stream helper ignores other types, and uses the last type (calls/empty_id_and_name).
            typed = call.get("type", None if call.get("id") else "function") == "function"
            return typed and _are_texts([call.get("id"), function.get("name"), function.get("arguments")])
    return False


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str | None) for value in values)


def _calls(entries: Any) -> list[tuple[Any, Any, Any]]:
    calls = []
    for entry in dicts_in(entries):
        function = entry.get("function")
        if isinstance(function, dict):
            calls.append((entry.get("id"), function.get("name"), function.get("arguments")))
    return calls
