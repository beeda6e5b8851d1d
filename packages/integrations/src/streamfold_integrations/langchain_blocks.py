"""Media of requests and what an answer has beside text and calls, as LangChain's standard content blocks."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from streamfold import Reply
from streamfold.types import AudioPart, FilePart, ImagePart

from .hosted_steps import HostedCall, HostedStep

_PARTS = {"image": ImagePart, "file": FilePart, "audio": AudioPart}


def content_of(content: Any) -> Any:
    """Returns the content of a message of LangChain as streamfold takes it."""
    if not isinstance(content, list):
        return content
    return tuple(_media_part(block) if isinstance(block, dict) else block for block in content)


def _media_part(block: dict[str, Any]) -> Any:
    """Returns a part of a message. LangChain has had two shapes for media, and passes on those of Anthropic."""
    part = _PARTS.get(str(block.get("type")))
    source = block.get("source") or {}
    data = block.get("base64") or block.get("data") or source.get("data")
    url = block.get("url") or source.get("url")
    file_id = (
        block.get("file_id") or source.get("file_id") or (block.get("source_type") == "id" and block["id"]) or None
    )
    if part is None or not (data or url or file_id):
        return block
    if file_id and "://" in file_id:  # Google's ids are addresses
        url, file_id = file_id, None
    named = {"name": block.get("filename") or block.get("name")} if part is FilePart else {}
    media_type = block.get("mime_type") or source.get("media_type")
    return part(data=b64decode(data) if data else None, url=url, file_id=file_id, media_type=media_type, **named)


def server_blocks(steps: Iterable[HostedStep]) -> Iterator[dict[str, Any]]:
    """Yields what tools of the provider did."""
    for step in steps:
        if isinstance(step, HostedCall):
            yield {"type": "server_tool_call", "id": step.id, "name": step.name, "args": step.input}
        else:
            said = {"status": "error" if step.error else "success", "output": step.output}
            more = {"extras": {"error": step.error}} if step.error else {}
            yield {"type": "server_tool_result", "tool_call_id": step.call.id, **said, **more}


def citations(reply: Reply) -> list[dict[str, Any]]:
    """Returns the sources that an answer names; positions are those of its whole text."""
    return [
        {
            "type": "citation",
            **_given(url=cited.url, title=cited.title, cited_text=cited.cited_text),
            **_given(start_index=cited.start, end_index=cited.end),
        }
        for cited in reply.citations
    ]


def file_blocks(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yields the files of an answer."""
    for file in reply.files:
        kind = (file.media_type or "").partition("/")[0]
        data = None if file.data is None else b64encode(file.data).decode()
        more = _given(filename=file.name, container_id=file.container_id)
        yield {
            "type": kind if kind in ("image", "audio", "video") else "file",
            **_given(base64=data, url=file.url, file_id=file.file_id, mime_type=file.media_type, extras=more or None),
        }


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
