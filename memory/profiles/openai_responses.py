"""OpenAI's models on Responses."""

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, Profile

PROFILE = Profile(
    id="openai-responses",
    provider="openai",
    title="OpenAI Responses",
    protocol="openai-responses",
    tool_ids=IdFormat(longest=64, may_be_empty=False),
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    reasoning="native",
    seals=("itemId", "reasoningEncryptedContent"),
    namespace="openai",
    item_ids=True,
    files_inline=("image/*", "application/*", "text/*"),
    files_by_url=("image/*", "application/*", "text/*"),
    drops_empty=("user", "assistant"),
    input_object=False,  # any text is taken as arguments
    pending_call="synthesise",
    unpaired="to-text",
    rules={
        "tool-id": "openai-responses-call-id-length",
        "reasoning": "openai-responses-reasoning-foreign",
        "foreign-signature": "openai-responses-encrypted-content",
        "previous-id": "openai-responses-previous-id",
        "item-ids": "openai-responses-item-not-found",
        "pending-call": "openai-responses-tool-output-missing",
        "unpaired": "openai-responses-tool-output-orphan",
    },
    facts=(
        Fact("openai-responses-call-id-length", "the limit in the API's own refusal", "2026-09-01"),
        Fact("openai-responses-previous-id", "RooCodeInc/Roo-Code#7714", "2026-09-01"),
        Fact("openai-responses-item-not-found", "vercel/ai#7543", "2026-09-01"),
        Fact("openai-responses-tool-output-missing", "the words of the API's own refusal", "2026-09-01"),
        Fact("openai-responses-tool-output-orphan", "continuedev/continue#10092", "2026-09-01"),
        Fact("openai-responses-encrypted-content", "OpenAI documentation: reasoning", "2026-09-01"),
        Fact("openai-responses-reasoning-foreign", "reasoning items have ids of this API", "2026-09-01"),
    ),
)

ELSEWHERE = tuple(
    replace(PROFILE, id=f"{provider}-responses", provider=provider, title=f"{title} Responses")
    for provider, title in (
        ("xai", "xAI"),
        ("deepseek", "DeepSeek"),
        ("bedrock", "Bedrock"),
        ("openrouter", "OpenRouter"),
    )
)
"""Hosts of the same API."""
