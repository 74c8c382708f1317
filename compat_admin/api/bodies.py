"""JSON in and out: bodies read into Structs, answers written by one encoder."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja.renderers import BaseRenderer

from compat_admin.api.refused import Refused
from memory.errors import FieldError, InvalidInput
from memory.messages.stored import clean_content, decode_json, read_content
from memory.messages.values import write_json

T = TypeVar("T")

MAX_DEPTH = 200
JSON_TYPE = "application/json"

encode = msgspec.json.Encoder().encode
_skim = msgspec.json.Decoder(msgspec.Raw)
_PLACE = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)


class Renderer(BaseRenderer):
    """Writes what a route returns: Structs, plain values, times as ISO 8601 in UTC."""

    media_type = JSON_TYPE

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return encode(data)


def reply(value: Any, status: int) -> HttpResponse:
    """A response with another status than 200, which a route gets for a bare value."""
    return HttpResponse(encode(value), status=status, content_type=f"{JSON_TYPE}; charset=utf-8")


def read_body(request: HttpRequest, body_type: type[T], *, as_sent: bool = False) -> T:
    """The request's JSON body. Big integers stay exact; U+0000 and half surrogates become U+FFFD.

    With `as_sent` texts stay as they came, for a service that cleans them itself and notes it. Raises InvalidInput
    (not_json, or with the field that does not fit), Refused for another media type, Django's RequestDataTooBig.
    """
    body = request.body
    if body and request.content_type != JSON_TYPE:
        raise Refused(415, "unsupported_media_type", f"send the body as {JSON_TYPE}")
    value = decode_json(body)
    # Only a body with so many brackets can be that deep, so most are never walked.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise InvalidInput(f"nested more than {MAX_DEPTH} levels deep", field="body")
    if not as_sent:
        value = _mended(value)
    try:
        return msgspec.convert(value, body_type)
    except msgspec.ValidationError as error:
        raise InvalidInput("the body does not fit", errors=(misfit(error),)) from error


def raw_json(text: str | bytes) -> msgspec.Raw:
    """A JSON text to be passed on as it is; one that is no JSON comes as a JSON string."""
    try:
        return _skim.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return msgspec.Raw(encode(shown))


def raw_content(text: str) -> msgspec.Raw:
    """A message's stored text to be passed on as it is; one that can't be read comes as an error part."""
    try:
        return _skim.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return msgspec.Raw(write_json(read_content(text)))


def misfit(error: msgspec.ValidationError, place: str = "") -> FieldError:
    """What msgspec says about a value that stands at `place`, as a finding at the place it is about."""
    found = _PLACE.fullmatch(str(error))
    message, inner = (found["message"], found["place"] or "") if found else (str(error), "")
    if named := _FIELD.fullmatch(message):
        inner = f"{inner}.{named['name']}" if inner else named["name"]
    joint = "." if place and inner and not inner.startswith("[") else ""
    return FieldError(f"{place}{joint}{inner}" or "body", f"{message[:1].lower()}{message[1:]}")


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
            elif isinstance(item, list):
                children.extend(item)
        if not children:
            return False
        level = children
    return True


def _mended(value: Any) -> Any:
    try:
        text = encode(value)
    except UnicodeEncodeError:
        text = b""
    if text and b"\\u0000" not in text:
        return value
    return msgspec.json.decode(clean_content(value)[0])
