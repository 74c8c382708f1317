"""OpenAI's models on Azure: the same APIs behind a content filter."""

from msgspec.structs import replace

from memory.profiles import openai_chat, openai_responses
from memory.profiles.profile import Fact

_FACT = Fact("azure-content-filter", "the reference's rule azure-system-reminder-transform", "2026-09-01")
_ROLE = Fact("azure-developer-role", "microsoft/semantic-kernel#12708; the words are those of DashScope", "2026-09-01")

CHAT, RESPONSES = (
    replace(
        base,
        id=f"azure-{base.protocol}",
        provider="azure",
        title="Azure OpenAI",
        reminder_tags=False,
        rules={**base.rules, "reminder-tags": "azure-content-filter", "developer-role": "azure-developer-role"},
        facts=(*base.facts, _FACT, _ROLE),
    )
    for base in (openai_chat.PROFILE, openai_responses.PROFILE)
)
