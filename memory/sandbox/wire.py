"""What every pretend provider needs: a refusal, JSON read with the place of its fault, ids that repeat themselves."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.S)


class Refused(Exception):
    """A request the vendor would not answer: `message` in its words, and what its error body says beside it."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code


class BadJson(Exception):
    """A body that is not JSON, and why. `place` reads `line 1 column 5 (char 4)`; `is_surrogate` is half an emoji."""

    def __init__(self, reason: str, *, place: str = "line 1 column 1 (char 0)", is_surrogate: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place
        self.is_surrogate = is_surrogate


def read_json(raw: bytes) -> Any:
    """The body as plain Python values, integers exact. Raises BadJson."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise BadJson("nested too deeply") from None
    except msgspec.MsgspecError as error:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise BadJson("str is not valid UTF-8: surrogates not allowed", is_surrogate=True) from None
        at = _lone_surrogate(text)
        if at is None:
            raise BadJson(str(error)) from None
        place = f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)} (char {at})"
        raise BadJson("no low surrogate in string", place=place, is_surrogate=True) from None


def _lone_surrogate(text: str) -> int | None:
    """Where the first half of a surrogate pair without its other half is escaped in a JSON text."""
    waiting: int | None = None
    for escape in _ESCAPE.finditer(text):
        unit = int(escape[1], 16) if escape[1] else 0
        if waiting is not None:
            if 0xDC00 <= unit <= 0xDFFF and escape.start() == waiting + 6:
                waiting = None
                continue
            return waiting
        if 0xD800 <= unit <= 0xDBFF:
            waiting = escape.start()
        elif 0xDC00 <= unit <= 0xDFFF:
            return escape.start()
    return waiting


def to_json(value: Any) -> bytes:
    return _encoder.encode(value)


def made_id(prefix: str, raw: bytes, part: str = "", *, length: int = 24) -> str:
    """An id that is the same whenever the same request comes: `part` tells several ids of one reply apart."""
    return prefix + hashlib.sha256(part.encode() + b"\0" + raw).hexdigest()[:length]


def token_count(text: str | bytes) -> int:
    """Roughly the tokens of a text: a quarter of its length, never none."""
    return max(1, len(text) // 4)


def pieces(text: str, size: int = 16) -> Iterator[str]:
    """The text cut as a stream would carry it."""
    return (text[start : start + size] for start in range(0, len(text), size))


def words(text: str) -> frozenset[str]:
    """A set written as words with blanks between them."""
    return frozenset(text.split())


def string_of(value: Any, key: str) -> str:
    """`value[key]` when it is text, else no text: for reading a body whose other parts were not looked at."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def kind_of(value: Any) -> str:
    """The JSON type of a value as error messages name it, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case list():
            return "an array"
        case _:
            return "an object"
