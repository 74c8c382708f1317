"""What requests say beside the types of the vendors' libraries, and what else of a request fits them not."""

from __future__ import annotations

import re
from typing import Any

from tests.sdk.validators import validator

_NAMED_RESULT = (
    "a result names its tool: taken since there are tools, as OpenAI's cookbook (calling functions) sends it"
)
DIFFERENCES: dict[str, dict[str, str]] = {
    "anthropic": {
        # The newest models take no sampling settings, and the library has dropped them; older models still do.
        ".temperature: unknown": "an older model",
        ".top_k: unknown": "an older model",
    },
    "azure": {".messages[].name: unknown": _NAMED_RESULT},
    "bedrock": {
        # The invoke API's own key in place of a header; the library's Bedrock client adds it behind the types.
        ".anthropic_version: unknown": "Bedrock's own",
    },
    "vertex": {
        # The library takes it flat, as `model_armor_config` of its one config, and moves it to the top itself.
        ".modelArmorConfig: unknown": "the library's own place",
    },
    # Keys that hosts have beside OpenAI's; they have no client library of their own, or one that is not tried here.
    "cerebras": {".clear_thinking: unknown": "the host's own"},
    "deepseek": {".messages[].reasoning_content: unknown": "the host's own"},
    "fireworks": {".messages[].reasoning_content: unknown": "the host's own"},
    "groq": {
        ".messages[].name: unknown": _NAMED_RESULT,
        ".reasoning_format: unknown": "the host's own",
        ".search_settings: unknown": "the host's own",
        ".service_tier: 'on_demand' is none of 'auto', 'default', 'flex', 'scale', 'priority', 'fast'": "its own tier",
    },
    "moonshot": {".messages[].reasoning_content: unknown": "the host's own"},
    "ollama": {".messages[].reasoning: unknown": "the host's own"},
    "openai": {".messages[].name: unknown": _NAMED_RESULT},
    "openrouter": {
        ".messages[].reasoning: unknown": "the router's own",
        ".messages[].content[].cache_control: unknown": "Anthropic's marker, passed on",
        ".messages[].content[].type: 'video_url' is none of 'text'": "Gemini's video, passed on",
        ".messages[].content[].video_url: unknown": "Gemini's video, passed on",
        ".models: unknown": "the router's own",
        ".preset: unknown": "the router's own",
        ".provider: unknown": "the router's own",
        ".reasoning: unknown": "the router's own",
        ".tools[].cache_control: unknown": "Anthropic's marker, passed on",
        ".tools[].parameters: unknown": "a tool of the router",
        ".tools[].type: 'openrouter:advisor' is none of 'function'": "a tool of the router",
        ".tools[].type: 'openrouter:web_search' is none of 'function'": "a tool of the router",
        ".transforms: unknown": "the router's own",
        ".usage: unknown": "the router's own",
    },
    "other": {
        ".messages[].reasoning: unknown": "the host's own",
        ".messages[].reasoning_content: unknown": "the host's own",
    },
    "qwen": {".messages[].reasoning_content: unknown": "the host's own"},
    "together": {".messages[].reasoning: unknown": "the host's own"},
    "vllm": {".messages[].reasoning_content: unknown": "the host's own"},
    "xai": {".messages[].reasoning_content: unknown": "the host's own"},
    "zhipu": {
        ".messages[].reasoning_content: unknown": "the host's own",
        ".thinking: unknown": "the host's own",
    },
}
"""What may differ for a provider, and why; list positions are left out."""


def unfit(provider: str, protocol: str, body: dict[str, Any]) -> set[str]:
    """The faults of a body for the library of its protocol that no difference explains, without list positions."""
    found = {re.sub(r"\[\d+\]", "[]", fault) for fault in validator(protocol, provider)(body)}
    return found - DIFFERENCES.get(provider, {}).keys()
