"""Text, image, file and audio parts of messages, their conversion to and from JSON, and `cache_control`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ..errors import ConfigError
from .media_types import data_url as make_data_url
from .media_types import from_base64, media_type_of, read_data_url, to_base64
from .pydantic_support import json_schema_type

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


# Cache marks: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching. Other providers cache automatically.

_Lifetime: TypeAlias = Literal["5m", "1h"]
CacheMark: TypeAlias = bool | _Lifetime


def check_cache_mark(mark: Any, what: str) -> None:
    if not isinstance(mark, bool) and mark not in get_args(_Lifetime):
        raise ConfigError(f"{what}: cache must be True, False, '5m' or '1h', not {mark!r}")


def read_cache_control(value: Any, where: str) -> CacheMark:
    """Parses Anthropic's field `cache_control`. Clients of other APIs send this field too. Raises ConfigError for an
    invalid value.

    >>> read_cache_control({"type": "ephemeral"}, ""), read_cache_control({"type": "ephemeral", "ttl": "1h"}, "")
    (True, '1h')
    """
    if value is None:
        return False
    match value:
        case {"type": "ephemeral", **rest} if isinstance(value, Mapping) and rest.keys() <= {"ttl"}:
            lifetime: Any = rest.get("ttl") or True
            check_cache_mark(lifetime, where)
            return lifetime  # type: ignore[no-any-return]
    raise ConfigError(f'{where} must be {{"type": "ephemeral"}}, with or without a ttl, not {value!r:.80}')


Detail: TypeAlias = Literal["auto", "low", "high", "original"]
Source: TypeAlias = str | bytes | Path


class _Part:
    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        def read(value: Any) -> Any:
            part = read_part(value, "part")
            if not isinstance(part, cls):
                raise ConfigError(f"part must be of the kind {_kind(cls)!r}: {value!r:.80}")
            return part

        return json_schema_type(cls, read, write_part, part_schema(cls))


@dataclass(frozen=True, slots=True)
class TextPart(_Part):
    """A text part of a message. The field `cache` is explained at `Message`."""

    text: str
    cache: CacheMark = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_cache_mark(self.cache, "a text")


@dataclass(frozen=True, slots=True)
class _Media(_Part):
    """Base class of image, file and audio parts. Exactly one of `data`, `url` and `file_id` is set.

    Attributes:
        file_id: the provider's id of an uploaded file.
        media_type: the media type of `data`. The functions `image`, `file` and `audio` detect the media type.
        cache: see `Message`.
    """

    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    file_id: str | None = None
    media_type: str | None = None
    cache: CacheMark = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        what = _WORDS[type(self)]
        check_cache_mark(self.cache, what)
        given = [name for name in ("data", "url", "file_id") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(
                f"{what} needs exactly one of data, url and file_id, not {' and '.join(given) or 'none of them'}"
            )
        kind = bytes if given == ["data"] else str
        if not isinstance(getattr(self, given[0]), kind):
            found = type(getattr(self, given[0])).__name__
            raise ConfigError(f"the {given[0]} of {what} must be {_A[kind]}, not {found}")
        if self.data is not None and not self.media_type:
            raise ConfigError(f"{what} with data needs media_type; image(), file() and audio() detect the media type")
        for name in ("media_type", "name"):
            if not isinstance(getattr(self, name, None), str | None):
                raise ConfigError(f"the {name} of {what} must be a string, not {type(getattr(self, name)).__name__}")
        if (detail := getattr(self, "detail", None)) is not None and detail not in get_args(Detail):
            raise ConfigError(f"the detail of {what} must be one of {', '.join(get_args(Detail))}, not {detail!r}")

    @property
    def data_url(self) -> str:
        if self.data is None or self.media_type is None:
            raise ValueError("this part has no bytes")
        return make_data_url(self.data, self.media_type)


@dataclass(frozen=True, slots=True)
class ImagePart(_Media):
    """An image part. `detail` is the resolution at which the model sees the image. Not every provider supports
    `detail`."""

    detail: Detail | None = None


@dataclass(frozen=True, slots=True)
class FilePart(_Media):
    """A document part, such as a PDF. `name` is the file name."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class AudioPart(_Media):
    """An audio part."""


MediaPart: TypeAlias = ImagePart | FilePart | AudioPart
ContentPart: TypeAlias = TextPart | ImagePart | FilePart | AudioPart

_A = {bytes: "bytes", str: "a string"}
_WORDS: dict[type, str] = {ImagePart: "an image", FilePart: "a file", AudioPart: "audio"}
_FIELDS: dict[str, tuple[type[MediaPart], tuple[str, ...]]] = {
    "image": (ImagePart, ("url", "file_id", "media_type", "detail", "cache")),
    "file": (FilePart, ("url", "file_id", "media_type", "name", "cache")),
    "audio": (AudioPart, ("url", "file_id", "media_type", "cache")),
}


def image(source: Source, *, detail: Detail | None = None, media_type: str | None = None) -> ImagePart:
    """Creates an image part from a URL, bytes or a file.

    A string with a scheme (`https://`, `data:`, Moonshot's `ms://`) is a URL. Any other string is the path of a file,
    which is read immediately. Without `media_type`, the media type is detected from the bytes.

    Raises:
        ConfigError: the file doesn't exist, or the bytes aren't an image.
    """
    return ImagePart(**_given("image", source, media_type, "image/"), detail=detail)


def file(source: Source, *, name: str | None = None, media_type: str | None = None) -> FilePart:
    """Creates a document part from a URL, bytes or a file. Raises ConfigError if the file doesn't exist."""
    given = _given("file", source, media_type, "", name)
    is_url = isinstance(source, str) and ("://" in source or source[:5].lower() == "data:")
    if name is None and isinstance(source, str | Path) and not is_url:
        name = Path(source).name
    return FilePart(**given, name=name)


def audio(source: str | bytes | Path, *, media_type: str | None = None) -> AudioPart:
    """Creates an audio part from bytes, a file or a data URL. No API accepts the URL of an audio file.

    Raises:
        ConfigError: the file doesn't exist, or the bytes aren't audio.
    """
    return AudioPart(**_given("audio", source, media_type, "audio/"))


def _given(what: str, source: Any, media_type: str | None, expected: str, name: str | None = None) -> dict[str, Any]:
    declared: str | None = None
    match source:
        case "" | b"":
            raise ConfigError(f"{what}() accepts a URL, bytes or a file path, not an empty value")
        case str() if source[:5].lower() == "data:":
            try:
                data, declared = read_data_url(source)
            except ValueError as exc:
                raise ConfigError(f"{what}: {exc}") from None
        case str() if "://" in source:
            return {"url": source, "media_type": media_type}
        case str() | Path():
            name = name or Path(source).name
            data = _read(what, source)
        case bytes() | bytearray() | memoryview():
            data = bytes(source)
        case _:
            raise ConfigError(f"{what}() accepts a URL, bytes or a file path, not {type(source).__name__}")
    found = media_type or declared or media_type_of(data, name)
    if not media_type and not found.startswith(expected):
        shown = _WORDS[_FIELDS[what][0]]
        raise ConfigError(
            f"{what}: the data looks like {found} (it begins with {data[:8]!r}); if it is {shown}, pass media_type="
        )
    return {"data": data, "media_type": found}


def _read(what: str, source: str | Path) -> bytes:
    try:
        return Path(source).read_bytes()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        shown = str(source)[:200]
        raise ConfigError(f"{what}: {shown!r} can't be read ({reason}); a URL begins with https://") from exc


def write_part(part: ContentPart | Mapping[str, Any]) -> dict[str, Any]:
    """Returns a content part as JSON data. The field `part` contains the kind of part, such as "image". Returns a dict
    unchanged."""
    if isinstance(part, TextPart):
        return {"part": "text", "text": part.text, **({"cache": part.cache} if part.cache else {})}
    if isinstance(part, Mapping):
        return {"part": "dict", "value": dict(part)} if "part" in part else dict(part)
    kind = next(kind for kind, (cls, _) in _FIELDS.items() if isinstance(part, cls))
    members = {name: getattr(part, name) for name in _FIELDS[kind][1]}
    out = {"part": kind, **{name: value for name, value in members.items() if value not in (None, False)}}
    if part.data is not None:
        out["data"] = to_base64(part.data)
    return out


def _kind(cls: type) -> str:
    return next((kind for kind, (each, _) in _FIELDS.items() if each is cls), "text")


def part_schema(cls: type) -> dict[str, Any]:
    kind = _kind(cls)
    names = ("text", "cache") if kind == "text" else ("data", *_FIELDS[kind][1])
    members: dict[str, Any] = {name: {"type": "string"} for name in names}
    members |= {"cache": {"enum": [True, "5m", "1h"]}, "part": {"const": kind}}
    if "detail" in members:
        members["detail"] = {"enum": list(get_args(Detail))}
    required = ["part", "text"] if kind == "text" else ["part"]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def read_part(value: Any, where: str) -> ContentPart | dict[str, Any]:
    """Parses the output of `write_part`. Raises ConfigError with the position of an invalid value."""
    match value:
        case {"part": "text", "text": str(text), **rest} if rest.keys() <= {"cache"}:
            mark: Any = rest.get("cache", False)
            return TextPart(text, cache=mark)
        case {"part": "dict", "value": dict(kept), **rest} if not rest:
            return kept
        case {"part": str(kind), **members} if kind in _FIELDS:
            return _read_media(kind, {str(name): member for name, member in members.items()}, where)
        case {"part": kind}:
            raise ConfigError(f'{where}.part must be "text", "image", "file", "audio" or "dict", not {kind!r}')
        case dict():
            return value
    raise ConfigError(f"{where} must be an object, not {type(value).__name__}")


def _read_media(kind: str, members: dict[str, Any], where: str) -> MediaPart:
    cls, known = _FIELDS[kind]
    for name in members:
        if name not in (*known, "data"):
            raise ConfigError(f"{where}.{name} is unknown. Allowed: {', '.join(('data', *known))}")
    try:
        if isinstance(members.get("data"), str):
            members = {**members, "data": from_base64(members["data"])}
        return cls(**members)
    except ValueError as exc:
        raise ConfigError(f"{where}.data is {exc}") from None
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from None
