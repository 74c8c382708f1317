"""Claude on the Messages API."""

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, Profile

PROFILE = Profile(
    id="anthropic",
    provider="anthropic",
    title="Anthropic",
    protocol="anthropic-messages",
    tool_ids=IdFormat(refused="[^a-zA-Z0-9_-]", may_be_empty=False),
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=128, may_be_empty=False),
    reasoning="native",
    namespace="anthropic",
    seals=("signature", "redactedData"),
    files_inline=("image/*", "application/pdf", "text/plain"),
    files_by_url=("image/*", "application/pdf"),
    blank_text="drop",
    pending_call="synthesise",
    unpaired="to-text",
    system_between=False,
    first_user="synthesise",
    rules={
        "tool-id": "anthropic-tool-id-charset",
        "reasoning": "anthropic-thinking-signature-missing",
        "foreign-signature": "anthropic-thinking-signature-invalid",
        "hosted-tool": "anthropic-server-tool-id",
        "pending-call": "anthropic-tool-result-missing",
        "unpaired": "anthropic-tool-result-orphan",
        "system-turn": "anthropic-role-system",
        "blank-text": "anthropic-empty-text",
        "first-user": "anthropic-first-message-user",
    },
    facts=(
        Fact("anthropic-tool-id-charset", "the pattern in the API's own refusal", "2026-09-01"),
        Fact("anthropic-thinking-signature-missing", "langchain-ai/langchain#33391", "2026-09-01"),
        Fact("anthropic-thinking-signature-invalid", "mastra-ai/mastra#22568", "2026-09-01"),
        Fact("anthropic-server-tool-id", "decolua/9router#3685", "2026-09-01"),
        Fact("anthropic-tool-result-missing", "Claude documentation: handle tool calls", "2026-09-01"),
        Fact("anthropic-tool-result-orphan", "tghamm/Anthropic.SDK#184", "2026-09-01"),
        Fact("anthropic-empty-text", "anthropics/anthropic-sdk-python#461", "2026-09-01"),
        Fact("anthropic-role-system", "Claude documentation: messages; recorded traffic of Opus 4.8", "2026-11-01"),
        Fact("anthropic-first-message-user", "NousResearch/hermes-agent#63983", "2026-09-01"),
    ),
)

OPUS_4_8 = replace(PROFILE, id="anthropic-opus-4-8", models=("claude-opus-4-8*",), system_between=True)
"""Takes system messages between the turns."""
