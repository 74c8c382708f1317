"""OpenAI's models on Azure: the same APIs behind a content filter."""

from msgspec.structs import replace

from memory.profiles import openai_chat, openai_responses
from memory.profiles.profile import Fact

_FACT = Fact("azure-content-filter", "the reference's rule azure-system-reminder-transform", "2026-09-01")

CHAT, RESPONSES = (
    replace(
        base,
        id=f"azure-{base.protocol}",
        provider="azure",
        title="Azure OpenAI",
        reminder_tags=False,
        rules={**base.rules, "reminder-tags": "azure-content-filter"},
        facts=(*base.facts, _FACT),
    )
    for base in (openai_chat.PROFILE, openai_responses.PROFILE)
)
