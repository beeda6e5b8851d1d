"""Content parts that callers write as dicts, in the spelling of Chat Completions or of the Responses API.

A part becomes one of ours if ours can hold all of it. Any other part stays the dict that it is, because many servers
have parts and members of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

from ..values import (
    AudioPart,
    ConfigError,
    ContentPart,
    FilePart,
    ImagePart,
    TextPart,
    audio_format,
    from_base64,
    read_data_url,
    to_base64,
)
from .object_reader import ObjectReader, kind_of

ReadPart: TypeAlias = ContentPart | Mapping[str, Any]

_PARTS = ("text", "image_url", "input_audio", "file", "refusal", "video_url")
_RESPONSES_PARTS = ("input_text", "input_image", "input_file", "output_text")
# What other APIs and libraries call them.
_FOREIGN = {
    "image": "image_url", "image_file": "image_url", "audio": "input_audio", "document": "file", "pdf": "file",
    "tool_use": "tool_calls beside the content", "tool_result": 'a message with the role "tool"',
}  # fmt: skip
_DETAILS = ("auto", "low", "high", "original")
_SAYS_NOTHING: tuple[Any, ...] = (None, [], {})  # `annotations: []`


def read_content(content: Any, where: str) -> str | tuple[ReadPart, ...] | None:
    """Returns the content of a message. Raises ConfigError that begins with the path to the wrong part."""
    if isinstance(content, str | None):
        return content
    if not isinstance(content, list | tuple):
        raise ConfigError(f"{where} must be a string, a list of parts or null, not {kind_of(content)}")
    return tuple(read_part(part, f"{where}[{at}]") for at, part in enumerate(content))


def read_part(part: Any, where: str) -> ReadPart:
    """Returns a part as ours, or as a dict if ours can't hold all of it.

    >>> read_part({"type": "text", "text": "Hello"}, "content[0]")
    TextPart(text='Hello')

    Raises:
        ConfigError: it is not a part, or a part of a known type with a wrong member.
    """
    if isinstance(part, ContentPart):
        return part
    if not isinstance(part, Mapping):
        raise ConfigError(f"{where} is a content part: an object with a type, not {kind_of(part)}: {part!r:.80}")
    kind = _kind_of_part(part, where)
    fields = ObjectReader({name: value for name, value in part.items() if name != "type"}, where)
    read: ContentPart | None = None
    match kind:
        case "text" | "input_text" | "output_text":
            read = TextPart(fields.string("text"))
        case "refusal":
            fields.string("refusal")
        case "image_url" if isinstance(part.get("image_url"), str):
            read = _image(fields.text("image_url"), None, None, where, where)
        case "image_url":
            inner = fields.inner("image_url")
            read = _image(
                inner.string("url"), None, inner.text("detail"), f"{where}.image_url", f"{where}.image_url.url"
            )
            fields.absorb_rest(inner)
        case "input_image":
            url, file_id, detail = (fields.text(name) for name in ("image_url", "file_id", "detail"))
            read = _image(url, file_id, None if detail == "auto" else detail, where, f"{where}.image_url")
        case "file":
            inner = fields.inner("file")
            if not any(part["file"].get(name) for name in ("file_id", "file_data", "file_url")):
                raise ConfigError(f"{where}.file needs a file_id or file_data")
            read = _file(inner)
            fields.absorb_rest(inner)
        case "input_file":
            read = _file(fields)
        case "input_audio":
            inner = fields.inner("input_audio")
            read = _audio(inner.string("data"), inner.string("format"), f"{where}.input_audio.data")
            fields.absorb_rest(inner)
        case "video_url" if not isinstance(part.get("video_url"), str):
            fields.inner("video_url").string("url")
    if read is None or any(value not in _SAYS_NOTHING for value in fields.rest().values()):
        return dict(part)
    return read


def _kind_of_part(part: Mapping[str, Any], where: str) -> str:
    kind = part.get("type")
    if not isinstance(kind, str):
        problem = "is missing" if kind is None else f"must be a string, not {kind_of(kind)}"
        raise ConfigError(f"{where}.type {problem}. Allowed: {', '.join(_PARTS)}")
    if kind in _FOREIGN:
        raise ConfigError(f"{where}.type is {kind!r}, another API's word: in Chat Completions it is {_FOREIGN[kind]}")
    if kind not in (*_PARTS, *_RESPONSES_PARTS) and (close := get_close_matches(kind, _PARTS, n=1, cutoff=0.8)):
        raise ConfigError(f"{where}.type is {kind!r}; did you mean {close[0]!r}?")
    return kind


def _image(url: str | None, file_id: str | None, detail: str | None, where: str, place: str) -> ImagePart | None:
    if detail is not None and detail not in _DETAILS:
        raise ConfigError(f"{where}.detail is {detail!r}. Allowed: {', '.join(_DETAILS)}")
    read: Any = detail
    if url is None:
        if file_id is None:
            raise ConfigError(f"{place} is missing: it must be a string")
        return ImagePart(file_id=file_id, detail=read)
    if file_id is not None:
        return None
    if url[:5].lower() != "data:":
        return ImagePart(url=url, detail=read)
    data, media_type = _from_data_url(url, place)
    made = ImagePart(data=data, media_type=media_type, detail=read)
    return made if made.data_url == url else ImagePart(url=url, detail=read)  # what is sent is what was written


def _file(fields: ObjectReader) -> FilePart | None:
    """Returns a file by id, by URL or as bytes in a data URL; None if it is given in another way."""
    file_id, url, data, name = (fields.text(key) for key in ("file_id", "file_url", "file_data", "filename"))
    if file_id is not None and data is None and url is None and name is None:
        return FilePart(file_id=file_id)
    if url is not None and data is None and file_id is None:
        return FilePart(url=url, name=name)
    if data is None or file_id is not None or url is not None or data[:5].lower() != "data:":
        return None
    read, media_type = _from_data_url(data, fields.at("file_data"))
    made = FilePart(data=read, media_type=media_type, name=name)
    return made if made.data_url == data else None


def _audio(data: str, audio: str, where: str) -> AudioPart | None:
    try:
        read = from_base64(data)
    except ValueError as exc:
        raise ConfigError(f"{where} is {exc}") from None
    media_type = {"mp3": "audio/mpeg", "m4a": "audio/mp4"}.get(audio, f"audio/{audio}")
    exact = to_base64(read) == data and audio_format(media_type) == audio
    return AudioPart(data=read, media_type=media_type) if exact else None


def _from_data_url(url: str, where: str) -> tuple[bytes, str]:
    try:
        return read_data_url(url)
    except ValueError as exc:
        raise ConfigError(f"{where}: {exc}") from None
