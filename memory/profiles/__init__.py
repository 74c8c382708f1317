"""The list of profiles and how one is found."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

from msgspec.structs import replace

from memory.messages.names import ModelRef
from memory.profiles import anthropic, cerebras, openai_chat, openai_responses, reference, unknown
from memory.profiles.profile import Profile

PROFILES: tuple[Profile, ...] = (
    anthropic.OPUS_4_8,
    anthropic.PROFILE,
    openai_chat.PROFILE,
    openai_responses.PROFILE,
    cerebras.PROFILE,
)
"""First match wins."""
UNKNOWN = unknown.PROFILE
REFERENCE = reference.PROFILE


_NAMESPACES = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai",
    "gemini-contents": "google",
    "bedrock-converse": "bedrock",
    "cohere-v2": "cohere",
}


@cache
def _unknown(provider: str, protocol: str) -> Profile:
    own = "openai" if provider in ("", "openai", "azure") else provider
    return replace(UNKNOWN, provider=provider, protocol=protocol, namespace=_NAMESPACES.get(protocol, own))


def profile_for(model: ModelRef, protocol: str = "") -> Profile:
    """Facts for a target. A provider without a profile of its own is taken as unknown."""
    for profile in PROFILES:
        if profile.provider != model.provider or (protocol and profile.protocol != protocol):
            continue
        if any(fnmatchcase(model.model_id, pattern) for pattern in profile.models):
            return profile
    return _unknown(model.provider, protocol)
