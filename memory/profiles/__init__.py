"""The list of profiles and how one is found."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

from msgspec.structs import replace

from memory.messages.names import ModelRef
from memory.profiles import (
    anthropic,
    azure,
    bedrock,
    cerebras,
    chat_hosts,
    cohere,
    gemini,
    messages_hosts,
    openai_chat,
    openai_responses,
    reference,
    unknown,
)
from memory.profiles.profile import Profile

PROFILES: tuple[Profile, ...] = (
    *anthropic.ALL,
    *anthropic.ELSEWHERE,
    *openai_chat.ALL,
    openai_responses.PROFILE,
    *openai_responses.ELSEWHERE,
    azure.CHAT,
    azure.RESPONSES,
    *gemini.ALL,
    *bedrock.ALL,
    cohere.PROFILE,
    cerebras.PROFILE,
    *chat_hosts.ALL,
    *messages_hosts.ALL,
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


def plain_model(model_id: str) -> str:
    """A Claude model's own name on whatever platform: without vendor prefix, region and version marks."""
    name = model_id.rpartition("anthropic.")[2].rpartition("/")[2]
    return re.sub(r"(?:-v\d+)?(?::\d+)?$", "", name).replace("@", "-")


def profile_for(model: ModelRef, protocol: str = "") -> Profile:
    """Facts for a target. A provider without a profile of its own is taken as unknown."""
    for profile in PROFILES:
        if profile.provider != model.provider or (protocol and profile.protocol != protocol):
            continue
        name = model.model_id if profile.namespace != "anthropic" else plain_model(model.model_id)
        if any(fnmatchcase(name, pattern) for pattern in profile.models):
            return profile
    return _unknown(model.provider, protocol)
