"""A server that stores conversations, as OpenAI's and Google's do, and forgets them.

It is written from the documentation alone, and notes what a client does wrong in `problems`: an id of another key or
address, a message twice in what the model sees, a message that was sent although it was stored, a call without a
result. `seen` has what the model was shown by each request that was accepted: the instructions and the items.

An item is ("user", text), ("assistant", text), ("call", id, name, arguments) or ("result", id, text).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import httpx

Item = tuple[str, ...]
Account = tuple[str, str, str]  # address, API and key


@dataclass
class Plan:
    """How the next request is answered.

    Attributes:
        calls: the names of the tools that are called.
        end: "whole"; "length": cut off by the limit of tokens; "cut": the connection ends in the middle.
        stores: whether an answer that was cut is stored all the same.
        fail: the status of an error that comes first, once.
        code: the code of the error for an unknown id.
    """

    calls: Sequence[str] = ()
    end: str = "whole"
    stores: bool = False
    fail: int | None = None
    code: str = "previous_response_not_found"


@dataclass
class StoringServer:
    """See the module.

    Attributes:
        inherits_system: hosts that take no `instructions` beside an id, so that system messages are items.
        ignores: hosts that don't know the id, and answer without what came before.
        stored: what is stored of each account: the items up to and including an answer, by its id.
        known: ids whose answers have reached the client as a whole.
        plan: for the next request; after it, plain texts are the answers.
    """

    random: Random
    inherits_system: frozenset[str] = frozenset()
    ignores: frozenset[str] = frozenset()
    stored: dict[Account, dict[str, tuple[Item, ...]]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    plan: Plan = field(default_factory=Plan)
    seen: list[tuple[str, tuple[Item, ...]]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    rejected: int = 0
    continued: int = 0
    ignored: int = 0
    problems: list[str] = field(default_factory=list)
    _restarting: set[Account] = field(default_factory=set)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def forget(self, how_many: float = 1.0) -> None:
        """Deletes about this share of all stored answers."""
        for answers in self.stored.values():
            for answer_id in [each for each in answers if self.random.random() < how_many]:
                del answers[answer_id]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(404, json={"error": {"code": "not_found", "message": "there is no such thing"}})
        plan = self.plan
        if plan.fail is not None:
            status, plan.fail = plan.fail, None
            return httpx.Response(status, headers={"retry-after-ms": "1"}, json={"error": {"message": "try later"}})
        body = json.loads(request.content)
        self.bodies.append(body)
        api = request.url.path.rsplit("/", 1)[-1]
        key = request.headers.get("authorization") or request.headers.get("x-goog-api-key") or ""
        account = (request.url.host, api, key)
        answers = self.stored.setdefault(account, {})
        previous = body.get("previous_response_id") or body.get("previous_interaction_id")
        if ignored := previous is not None and request.url.host in self.ignores:
            self.ignored += 1
            previous = None
        if previous is not None and previous not in answers:
            return self._unknown(previous, account, plan)
        instructions, new = _READERS[api](body, self.problems.append)
        if previous is not None and not new:
            self.problems.append("a request without input")
        if previous is not None and request.url.host in self.inherits_system and body.get("instructions"):
            self.problems.append("instructions beside an id")
        items = (*answers.get(previous or "", ()), *new)
        if not ignored:
            self._check(items, new, account)
        self.continued += previous is not None
        self._restarting.discard(account)
        system = [item[1] for item in items if item[0] == "system"]
        talk = tuple(item for item in items if item[0] != "system")
        self.seen.append(("\n\n".join(filter(None, [*system, instructions])), talk))
        self.plan = Plan()
        said = {"previous": previous, **{name: body.get(name) for name in ("stream", "store", "include")}}
        return self._answer(api, account, items, plan, **said)

    def _unknown(self, previous: str, account: Account, plan: Plan) -> httpx.Response:
        if any(previous in answers for other, answers in self.stored.items() if other != account):
            self.problems.append(f"{previous} was sent to {account}, which has not made it")
        if not previous.startswith(f"{account[0]}-{account[2][-1]}-"):
            self.problems.append(f"{previous} belongs to another account than {account}")
        if account in self._restarting:
            self.problems.append("a second id after one was rejected")
        self._restarting.add(account)
        self.rejected += 1
        if account[1] == "interactions":
            return httpx.Response(404, json={"error": {"code": "not_found", "message": "Requested entity not found."}})
        message = f"Previous response with id '{previous}' not found."
        if plan.code != "previous_response_not_found":
            message = "Invalid `previous_response_id`."
        error = {"type": "invalid_request_error", "code": plan.code, "message": message}
        return httpx.Response(400, json={"error": error})

    def _check(self, items: tuple[Item, ...], new: Sequence[Item], account: Account) -> None:
        if len(set(items)) < len(items):
            twice = [item for item in items if items.count(item) > 1]
            self.problems.append(f"the model sees {twice[:2]} more than once")
        waiting = [item[1] for item in items if item[0] == "call"]
        results = [item[1] for item in items if item[0] == "result"]
        if waiting != sorted(results, key=lambda each: waiting.index(each) if each in waiting else -1):
            self.problems.append(f"calls {waiting} have the results {results}")
        known = [each for answer, each in self.stored[account].items() if answer in self.known]
        most = max((len(each) for each in known if len(each) < len(items) and items[: len(each)] == each), default=0)
        if account not in self._restarting and account[0] not in self.ignores and most > len(items) - len(new):
            self.problems.append(f"{most - len(items) + len(new)} stored items were sent again")

    def _answer(
        self,
        api: str,
        account: Account,
        items: tuple[Item, ...],
        plan: Plan,
        *,
        previous: str | None,
        stream: bool,
        store: Any,
        include: Any,
    ) -> httpx.Response:
        number = next(self._numbers)
        answer_id = f"{account[0]}-{account[2][-1]}-{number}"
        text = f"answer {number}."
        calls = [(f"call_{number}_{at}", name, json.dumps({"n": number})) for at, name in enumerate(plan.calls)]
        made: list[Item] = [("assistant", text), *(("call", each, name, plain(said)) for each, name, said in calls)]
        if plan.end == "length":  # behind what the client is told of, the model had begun a call
            made.append(("call", f"cut_{number}", "look", "{}"))
        if store and (plan.end != "cut" or plan.stores):
            self.stored[account][answer_id] = (*items, *made)
        writer = {"responses": _responses, "interactions": _interactions, "completions": _completions}[api]
        events, whole = writer(answer_id, text, calls, plan.end)
        written = json.dumps([[each.decode() for each in events], whole])
        if "reasoning.encrypted_content" not in (include or ()):
            written = written.replace("encrypted", "no")
        if previous is not None:  # each response says what it continues
            for quote in ('"', '\\"'):
                name = f"{quote}previous_response_id{quote}: "
                written = written.replace(f"{name}null", f"{name}{quote}{previous}{quote}")
        events, whole = json.loads(written)
        events = [each.encode() for each in events]
        if not stream and plan.end != "cut":
            return httpx.Response(200, json=whole)
        if plan.end == "cut":
            events = events[: -self.random.randint(1, 3) if api == "responses" else -2]
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(events))


class _Body(httpx.AsyncByteStream):
    def __init__(self, events: Iterable[bytes]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield event


def _sse(payload: Any) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


Written = tuple[list[bytes], Any]
Calls = list[tuple[str, str, str]]


def _responses(answer_id: str, text: str, calls: Calls, end: str) -> Written:
    part = {"type": "output_text", "text": text, "annotations": []}
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": f"rs_{answer_id}", "summary": [], "encrypted_content": f"secret of {answer_id}"},
        {"type": "message", "id": f"m_{answer_id}", "role": "assistant", "status": "completed", "content": [part]},
    ]
    output += [
        {
            "type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments,
            "status": "completed",
        }
        for call_id, name, arguments in calls
    ]  # fmt: skip
    status = "incomplete" if end == "length" else "completed"
    usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    response = {"id": answer_id, "object": "response", "status": status, "model": "m", "output": output, "usage": usage}
    response["previous_response_id"] = None
    if end == "length":
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events = [_sse({"type": "response.created", "response": begun})]
    for at, item in enumerate(output):
        events.append(_sse({"type": "response.output_item.added", "output_index": at, "item": item | {"content": []}}))
        if item["type"] == "message":
            where = {"output_index": at, "content_index": 0, "item_id": item["id"]}
            events += [_sse({"type": "response.output_text.delta", "delta": each, **where}) for each in text]
        events.append(_sse({"type": "response.output_item.done", "output_index": at, "item": item}))
    return [*events, _sse({"type": f"response.{status}", "response": response})], response


def _interactions(answer_id: str, text: str, calls: Calls, end: str) -> Written:
    steps: list[dict[str, Any]] = [
        {"type": "thought", "signature": f"signed {answer_id}"},
        {"type": "model_output", "content": [{"type": "text", "text": text}]},
    ]
    steps += [
        {"type": "function_call", "id": call_id, "name": name, "arguments": json.loads(arguments)}
        for call_id, name, arguments in calls
    ]
    status = "incomplete" if end == "length" else "requires_action" if calls else "completed"
    usage = {"total_tokens": 11, "total_input_tokens": 9, "total_output_tokens": 2}
    about = {"id": answer_id, "object": "interaction", "model": "m", "status": status, "usage": usage}
    begun = {"id": answer_id, "status": "in_progress"}
    events = [_sse({"event_type": "interaction.created", "interaction": begun})]
    for at, step in enumerate(steps):
        empty = {"type": step["type"], **({"arguments": {}} if step["type"] == "function_call" else {})}
        kept = {name: step[name] for name in ("id", "name") if name in step}
        events.append(_sse({"event_type": "step.start", "index": at, "step": {**empty, **kept}}))
        match step["type"]:
            case "thought":
                deltas = [{"type": "thought_signature", "signature": step["signature"]}]
            case "model_output":
                deltas = [{"type": "text", "text": each} for each in text]
            case _:
                deltas = [{"type": "arguments_delta", "arguments": json.dumps(step["arguments"])}]
        events += [_sse({"event_type": "step.delta", "index": at, "delta": delta}) for delta in deltas]
        events.append(_sse({"event_type": "step.stop", "index": at}))
    done = _sse({"event_type": "interaction.completed", "interaction": about})
    return [*events, done, b"data: [DONE]\n\n"], {**about, "steps": steps}


def _completions(answer_id: str, text: str, calls: Calls, end: str) -> Written:
    made = [
        {"index": at, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (call_id, name, arguments) in enumerate(calls)
    ]
    reason = "length" if end == "length" else "tool_calls" if calls else "stop"
    head = {"id": answer_id, "model": "m", "object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": text}, *({"tool_calls": [each]} for each in made)]
    events = [_sse({**head, "choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    events.append(_sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
    message = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
    whole = {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    return [*events, b"data: [DONE]\n\n"], whole


Read = tuple[str, list[Item]]


def plain(arguments: Any) -> str:
    """Returns arguments in one spelling: an API that has objects for them doesn't keep the model's."""
    return json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _read_responses(body: Mapping[str, Any], wrong: Callable[[str], None]) -> Read:
    items: list[Item] = []
    for item in body["input"]:
        match item["type"]:
            case "message":
                items.append((item["role"], _text(item["content"])))
            case "function_call":
                items.append(("call", item["call_id"], item["name"], plain(item["arguments"])))
            case "function_call_output":
                items.append(("result", item["call_id"], _text(item["output"])))
            case "reasoning" if not item.get("encrypted_content"):
                wrong("reasoning that can't be read without what was stored")
            case "reasoning":
                pass
            case kind:
                wrong(f"an item of the type {kind}")
    return body.get("instructions") or "", items


def _read_interactions(body: Mapping[str, Any], wrong: Callable[[str], None]) -> Read:
    items: list[Item] = []
    for step in body["input"]:
        match step["type"]:
            case "user_input" | "model_output" as kind:
                items.append(("user" if kind == "user_input" else "assistant", _text(step["content"])))
            case "function_call":
                items.append(("call", step["id"], step["name"], plain(step["arguments"])))
            case "function_result":
                if not step.get("name"):
                    wrong("a result without the name of its function")
                items.append(("result", step["call_id"], _text(step["result"])))
            case "thought":
                pass
            case kind:
                wrong(f"a step of the type {kind}")
    return body.get("system_instruction") or "", items


def _read_completions(body: Mapping[str, Any], wrong: Callable[[str], None]) -> Read:
    items: list[Item] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            items.append(("result", message["tool_call_id"], _text(message["content"])))
            continue
        if text := _text(message.get("content")):
            items.append((message["role"], text))
        for call in message.get("tool_calls") or ():
            items.append(("call", call["id"], call["function"]["name"], plain(call["function"]["arguments"])))
    return "", items


_READERS = {"responses": _read_responses, "interactions": _read_interactions, "completions": _read_completions}
