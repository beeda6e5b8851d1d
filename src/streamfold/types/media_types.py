"""Detects media types from the first bytes of data, and parses data URLs.

The first bytes take precedence over the file name, because file names are wrong more often. The file name is used only
for text formats and office documents, whose first bytes look alike.
"""

from __future__ import annotations

import base64
from pathlib import PurePath
from urllib.parse import unquote_to_bytes

# https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern and the formats' own documents.
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    b"avif": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif", b"M4A ": "audio/mp4",
}  # fmt: skip
_NAMES = {
    ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xml": "application/xml",
}
_FORMATS = {"audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/x-wav": "wav"}


def media_type_of(data: bytes, name: str | None = None) -> str:
    """Detects the media type of data by its first bytes, or by the file's name.

    If the data isn't recognized, returns `text/plain` for valid UTF-8, otherwise `application/octet-stream`.

    >>> media_type_of(b"%PDF-1.7"), media_type_of(b"a;b", "table.csv"), media_type_of(b"")
    ('application/pdf', 'text/csv', 'text/plain')
    """
    found = _by_beginning(data[:16]) or _NAMES.get(PurePath(name or "").suffix.lower())
    if found:
        return found
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if b"\x00" in data else "text/plain"


def _by_beginning(head: bytes) -> str | None:
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    # An MP3 without an ID3 tag begins with a frame: eleven bits set, and layer III after two bits of version.
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:
        return "audio/mpeg"
    return next((kind for beginning, kind in _BEGINNINGS if head.startswith(beginning)), None)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{to_base64(data)}"


def read_data_url(url: str) -> tuple[bytes, str]:
    """Returns the bytes and the media type of a data URL. Raises ValueError if the text isn't a data URL.

    >>> read_data_url("data:image/png;base64,AAE=")
    (b'\\x00\\x01', 'image/png')
    """
    head, comma, rest = url.partition(",")
    if not head.lower().startswith("data:") or not comma:
        raise ValueError("a data URL has the form data:TYPE;base64,DATA")
    media_type, *parameters = head[len("data:") :].split(";")
    if "base64" not in (parameter.strip().lower() for parameter in parameters):
        return unquote_to_bytes(rest), media_type or "text/plain"
    return from_base64(rest), media_type or "text/plain"


def from_base64(text: str) -> bytes:
    """Decodes base64 text. Raises ValueError if the text isn't base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise ValueError(f"not base64: {exc}") from None


def audio_format(media_type: str) -> str:
    """Returns the name that APIs use for an audio format: `wav`, `mp3`, or the subtype of the media type."""
    return _FORMATS.get(media_type, media_type.rpartition("/")[2])
