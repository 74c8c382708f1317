"""Claude models by family and version, and the signatures their thinking carries here."""

import base64
import binascii
import hashlib
import re
from typing import Any

_SIGNATURE_CHARS = 40
_SIGNATURE_MARK = b"sandbox thinking"


def model_family(model_id: str) -> str:
    """The model without host prefix, date and other endings: signatures are good within it, whatever the platform."""
    name = model_id.rsplit("/", 1)[-1].rsplit("anthropic.", 1)[-1]
    return re.sub(r"([-@]\d{8})?(-v\d+(:\d+)?)?(-latest)?(-0)?$", "", name)


def version(model_id: str) -> tuple[int, int]:
    """Major and minor number of a Claude model: (4, 8) for Opus 4.8, (5, 0) for Claude 5, (4, 5) without numbers."""
    numbers = [int(number) for number in re.findall(r"-(\d{1,2})(?=-|$)", model_family(model_id))]
    if not numbers:
        return (4, 5)
    return (numbers[0], numbers[1] if len(numbers) > 1 else 0)


def signature(model_id: str, thinking: str) -> str:
    """The signature of a thinking text by a model: the checks know it again, and refuse it elsewhere."""
    return base64.b64encode(_SIGNATURE_MARK + text_digest(model_family(model_id)) + text_digest(thinking)).decode()


def text_digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def own_signature(sealed: str) -> tuple[bytes, bytes] | None:
    """Digests of family and text when this sandbox made the signature."""
    try:
        raw = base64.b64decode(sealed, validate=True)
    except (binascii.Error, ValueError):
        return None
    size = len(_SIGNATURE_MARK)
    if raw[:size] != _SIGNATURE_MARK:
        return None
    return raw[size : size + 32], raw[size + 32 :]


def is_sealed(sealed: str) -> bool:
    """Whether it has the look of a signature the vendor made: it can't be verified here, so its shape has to do."""
    if len(sealed) < _SIGNATURE_CHARS:
        return False
    try:
        base64.b64decode(sealed, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def thinking_on(body: Any) -> bool:
    thinking = body.get("thinking") if isinstance(body, dict) else None
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")
