"""Texts without keys: what a failure says may quote a header, an address or a setting."""

from __future__ import annotations

import re

from django.conf import settings

from memory.errors import InvalidInput
from memory.messages.halves import storable
from memory.models import Provider
from memory.providers.http import Connection
from memory.services.keys import provider_key

HIDDEN = "[key]"
_SHORTEST = 6
_LONGEST_WORDS = 2000
_PASSWORD_IN_URL = re.compile(r"(?P<lead>[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE)
_NAMED = re.compile(
    r"(?P<lead>(?:api[-_]?key|x-goog-api-key|authorization|secret|password|token)[\"']?\s*[:=]\s*[\"']?(?:bearer\s+)?)"
    r"[^\s\"',;&)}]{6,}",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|csk|ca)[-_][A-Za-z0-9_-]{12,}|\bAIza[A-Za-z0-9_-]{20,}|\bAKIA[A-Z0-9]{16}\b"
)
_BEARER = re.compile(r"(?P<lead>\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)


def without_keys(text: str) -> str:
    """The text as a row can hold it, with the keys of this installation and whatever looks like one as `[key]`."""
    text = storable(text)
    for key in _own_keys():
        text = text.replace(key, HIDDEN)
    for pattern in (_PASSWORD_IN_URL, _NAMED, _BEARER):
        text = pattern.sub(rf"\g<lead>{HIDDEN}", text)
    return _KNOWN.sub(HIDDEN, text)


def words_of(text: str, reached: Connection) -> str:
    """A provider's words without the key it was called with and without what the connection's own headers say."""
    for secret in (reached.key.strip(), *reached.headers.values()):
        if len(secret) > 3:
            text = text.replace(secret, HIDDEN)
    text = storable(text)
    return text if len(text) <= _LONGEST_WORDS else f"{text[:_LONGEST_WORDS]}…"


def looks_like_a_key(text: str) -> bool:
    """Whether a text begins as the keys of known providers do."""
    return _KNOWN.match(text) is not None


def _own_keys() -> list[str]:
    found = [settings.SECRET_KEY]
    for ref in Provider.objects.exclude(key_ref="").values_list("key_ref", flat=True):
        try:
            key = provider_key(ref)
        except InvalidInput:
            continue
        if isinstance(key, str):  # What signs in place of a key tells none.
            found.append(key)
    return [key for key in found if len(key) >= _SHORTEST]
