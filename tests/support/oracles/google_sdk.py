"""What Google's own client makes of an answer of Gemini's API."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

from sdks import genai

__all__ = ["GoogleAnswer", "google_answer", "google_client", "google_interaction"]


@dataclass
class GoogleAnswer:
    """An answer as the client's user reads it, chunk by chunk."""

    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str | None, str | None, Any]] = field(default_factory=list)
    signatures: list[bytes] = field(default_factory=list)
    finish_reason: str | None = None
    block_reason: str | None = None
    usage: genai.types.GenerateContentResponseUsageMetadata | None = None
    ids: set[str | None] = field(default_factory=set)
    models: set[str | None] = field(default_factory=set)

    def add(self, chunk: genai.types.GenerateContentResponse) -> None:
        self.ids.add(chunk.response_id)
        self.models.add(chunk.model_version)
        self.usage = chunk.usage_metadata or self.usage
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            self.block_reason = chunk.prompt_feedback.block_reason.value
        for candidate in chunk.candidates or ():
            if candidate.finish_reason:
                self.finish_reason = candidate.finish_reason.value
            for part in (candidate.content.parts if candidate.content else None) or ():
                if part.thought_signature:
                    self.signatures.append(part.thought_signature)
                if part.function_call:
                    self.calls.append((part.function_call.id, part.function_call.name, part.function_call.args))
                elif part.thought:
                    self.thoughts += part.text or ""
                else:
                    self.text += part.text or ""


def google_client(body: bytes) -> genai.Client:
    """A client whose server answers everything with this body."""
    content_type = "text/event-stream" if body.startswith((b"data:", b"event:")) else "application/json"
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": content_type}, content=body)
    )
    options = genai.types.HttpOptions(base_url="http://test", client_args={"transport": transport})
    return genai.Client(api_key="k", http_options=options)


def google_answer(body: bytes) -> GoogleAnswer:
    """The answer in a body of events."""
    answer = GoogleAnswer()
    with google_client(body) as client:
        for chunk in client.models.generate_content_stream(model="m", contents="?"):
            answer.add(chunk)
    return answer


def google_interaction(body: bytes) -> GoogleAnswer:
    """The answer in a body of events of the Interactions API, whose calls come in pieces."""
    answer, steps, pieces = GoogleAnswer(), dict[int, Any](), dict[int, str]()
    with google_client(body) as client:
        stream = client.interactions.create(model="m", input="?", stream=True)
        for event in stream:
            kind = event.event_type
            if kind == "error":
                raise genai.errors.APIError(500, {"error": {"message": event.error.message}})
            if kind == "step.start":
                steps[event.index] = event.step
            elif kind == "step.delta":
                delta = event.delta
                if delta.type == "text":
                    answer.text += delta.text
                elif delta.type == "thought_summary":
                    answer.thoughts += delta.content.text
                elif delta.type == "thought_signature":
                    answer.signatures.append(delta.signature.encode())
                elif delta.type == "arguments_delta":
                    pieces[event.index] = pieces.get(event.index, "") + delta.arguments
            elif kind == "interaction.completed":
                answer.finish_reason, answer.ids = event.interaction.status, {event.interaction.id}
    if answer.finish_reason is None:
        raise genai.errors.APIError(500, {"error": {"message": "the interaction was not completed"}})
    if answer.finish_reason in ("completed", "requires_action"):  # else they are not to be run
        made = [(index, step) for index, step in steps.items() if step.type == "function_call"]
        answer.calls = [(step.id, step.name, json.loads(pieces.get(index) or "{}")) for index, step in made]
    return answer
