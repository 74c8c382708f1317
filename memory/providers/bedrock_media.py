"""Files as Converse writes them: the vendor's format names, their media types, and names of documents."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from memory.errors import EncodingError
from memory.messages.prompt import File, is_url
from memory.providers.shared import bare, extra_keys, mapping, namespaced

NAMESPACE = "bedrock"

# By kind of block: format -> media type. Of two formats with one type the first is the one written.
_FORMATS: dict[str, dict[str, str]] = {
    "image": {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"},
    "document": {
        "pdf": "application/pdf",
        "csv": "text/csv",
        "doc": "application/msword",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls": "application/vnd.ms-excel",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "html": "text/html",
        "txt": "text/plain",
        "md": "text/markdown",
    },
    "video": {
        "mp4": "video/mp4",
        "mov": "video/quicktime",
        "mkv": "video/x-matroska",
        "webm": "video/webm",
        "flv": "video/x-flv",
        "mpeg": "video/mpeg",
        "mpg": "video/mpeg",
        "wmv": "video/x-ms-wmv",
        "three_gp": "video/3gpp",
    },
    "audio": {
        "mp3": "audio/mpeg",
        "wav": "audio/wav",
        "flac": "audio/flac",
        "ogg": "audio/ogg",
        "opus": "audio/opus",
        "aac": "audio/aac",
        "mp4": "audio/mp4",
        "m4a": "audio/x-m4a",
        "webm": "audio/webm",
        "mka": "audio/x-matroska",
        "mpeg": "audio/mpeg",
        "mpga": "audio/mpeg",
        "pcm": "audio/pcm",
        "x-aac": "audio/x-aac",
    },
}
KINDS = tuple(_FORMATS)
_BY_TYPE = {
    media_type: (kind, form) for kind, formats in _FORMATS.items() for form, media_type in reversed(formats.items())
}
_BY_TYPE |= {"image/jpg": ("image", "jpeg"), "audio/mp3": ("audio", "mp3"), "audio/x-wav": ("audio", "wav")}
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+|\s{2,}")
_NAME_CHARS = 200


class _Bytes(Struct, frozen=True, gc=False):
    bytes: str


class _S3(Struct, frozen=True, gc=False):
    s3Location: Mapping[str, Any]


class _Media(Struct, frozen=True, gc=False):
    format: str
    source: _Bytes | _S3 | Mapping[str, Any]
    name: str | UnsetType = UNSET


def media_block(
    media_type: str, data: str, filename: str | None, place: str, options: Mapping[str, Any], *, unnamed: str
) -> dict[str, Any]:
    """The content block of a file. A document without a name is called `unnamed`: the protocol requires one.

    `options` are those of the namespace. Raises EncodingError for types that no format name stands for, and for URLs
    other than `s3://`.
    """
    media_type, data = bare(media_type, data)
    kind, form = _BY_TYPE.get(media_type) or ("", "")
    if not kind:
        raise EncodingError(f"a file of type {media_type!r} can't be sent", place=place)
    given = options.get("format")
    if isinstance(given, str) and _FORMATS[kind].get(given) == media_type:
        form = given
    source: _Bytes | _S3 | Mapping[str, Any] = _Bytes(data)
    if is_url(data):
        if not data.startswith("s3://"):
            raise EncodingError(f"a file of type {media_type!r} can't be sent by URL", place=place)
        source = _S3({"uri": data, **mapping(options.get("s3Location"))})
    elif options.get("isText") is True:
        source = {"text": _text_of(data, place)}
    name: str | UnsetType = UNSET
    if kind == "document":
        name = _document_name(filename) or unnamed
    media = _Media(form, source, name)
    extra = mapping(options.get("extra"))
    if not extra:
        return {kind: media}
    named = {} if name is UNSET else {"name": name}
    return {kind: {**extra, "format": form, "source": source, **named}}


def _document_name(filename: str | None) -> str:
    """A file's name in the alphabet of document names: `Report_2.pdf` is `Report-2`, the format says the rest."""
    if not filename:
        return ""
    if not _NOT_IN_A_NAME.search(filename):
        return filename[:_NAME_CHARS]
    stem, dot, _ = filename.rpartition(".")
    return _NOT_IN_A_NAME.sub("-", stem if dot and stem else filename).strip("- ")[:_NAME_CHARS]


def _text_of(data: str, place: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise EncodingError("a text file whose data is no base64 of UTF-8", place=place) from error


def file_of(kind: str, value: Any) -> File | None:
    """The file of a media block; None for one that a file part can't hold."""
    media = mapping(value)
    form = media.get("format")
    media_type = _FORMATS[kind].get(form) if isinstance(form, str) else None
    values: dict[str, Any] = {}
    match media.get("source"):
        case {"bytes": str() as data, **rest} if not rest and not is_url(data):
            pass
        case {"s3Location": {"uri": str() as data} as where, **rest} if not rest and data.startswith("s3://"):
            values["s3Location"] = extra_keys(where, "uri")
        case {"text": str() as text, **rest} if not rest and media_type == "text/plain":
            data = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
            values["isText"] = True
        case _:
            return None
    name = media.get("name") if kind == "document" else None
    if media_type is None or (name is not None and not isinstance(name, str)):
        return None
    values["format"] = None if _BY_TYPE[media_type] == (kind, form) else form
    values["extra"] = extra_keys(media, "format", "source", *(("name",) if kind == "document" else ()))
    return File(media_type, data, name, namespaced(NAMESPACE, values))
