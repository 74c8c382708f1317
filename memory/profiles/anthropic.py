"""Claude on the Messages API."""

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, ImageLimits, Profile

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
    signers=("anthropic", "vertex", "bedrock"),
    files_inline=("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"),
    files_by_url=("image/*", "application/pdf"),
    url_schemes=("https", "http"),
    plain_text_files=True,
    blank_text="drop",
    pending_call="synthesise",
    unpaired="to-text",
    system_between=False,
    first_user="synthesise",
    seals_by_model=True,
    hosted_ids="srvtoolu_[a-zA-Z0-9_]+",
    hosted_result_marks=("result.type",),
    further={
        "file.extra": ("context", "citations"),
        "reasoning.extra": ("*",),  # signed blocks are opaque: only an error that names a key takes it out
        "call.call": ("type", "caller"),
        "hosted.call": ("type", "caller", "server_name"),
        "hosted.result": ("type", "caller", "is_error"),
    },
    further_forms=dict.fromkeys(("caller", "citations"), ("{}",)),
    final_thinking=False,
    last_user="thinking",
    trims_last_text=True,
    cache_markers=4,
    marks_reasoning=False,
    images=ImageLimits(most=100),
    rules={
        "tool-id": "anthropic-tool-id-charset",
        "reasoning": "anthropic-thinking-signature-missing",
        "unknown-field": "anthropic-unknown-field",
        "role-order": "anthropic-role-alternation",
        "foreign-signature": "anthropic-thinking-signature-invalid",
        "hosted-tool": "anthropic-server-tool-id",
        "pending-call": "anthropic-tool-result-missing",
        "unpaired": "anthropic-tool-result-orphan",
        "system-turn": "anthropic-role-system",
        "blank-text": "anthropic-empty-text",
        "empty-message": "anthropic-empty-message",
        "input-object": "anthropic-tool-input-object",
        "duplicate-id": "anthropic-tool-id-duplicate",
        "media-type": "anthropic-image-unreadable",
        "image-size": "anthropic-image-dimensions",
        "last-user": "anthropic-prefill-unsupported",
        "trailing-space": "anthropic-trailing-whitespace",
        "cache-markers": "anthropic-cache-control-limit",
        "tools-declared": "anthropic-tools-missing",
        "final-thinking": "anthropic-thinking-when-disabled",
        "thinking-leads": "anthropic-thinking-must-lead",
        "first-user": "anthropic-first-message-user",
    },
    facts=(
        Fact(
            "anthropic-role-alternation", "the literal refusal in lobehub/lobehub#1496, of older Claude", "2026-11-30"
        ),
        Fact("anthropic-unknown-field", "anthropics/claude-code#4378", "2026-09-01"),
        Fact("anthropic-tool-id-charset", "the pattern in the API's own refusal", "2026-09-01"),
        Fact("anthropic-thinking-signature-missing", "langchain-ai/langchain#33391", "2026-09-01"),
        Fact("anthropic-thinking-signature-invalid", "mastra-ai/mastra#22568", "2026-09-01"),
        Fact("anthropic-server-tool-id", "decolua/9router#3685", "2026-09-01"),
        Fact("anthropic-tool-result-missing", "Claude documentation: handle tool calls", "2026-09-01"),
        Fact("anthropic-tool-result-orphan", "tghamm/Anthropic.SDK#184", "2026-09-01"),
        Fact("anthropic-empty-message", "the literal refusal in anthropics/claude-code#6774, #3196", "2026-11-30"),
        Fact("anthropic-tool-input-object", "prism-php/prism#659", "2026-09-01"),
        Fact("anthropic-tool-id-duplicate", "trycua/cua#524", "2026-09-01"),
        Fact("anthropic-image-unreadable", "home-assistant/core#167208", "2026-09-01"),
        Fact("anthropic-image-dimensions", "Claude documentation: vision", "2026-09-01"),
        Fact("anthropic-prefill-unsupported", "ericc-ch/copilot-api#261", "2026-09-01"),
        Fact("anthropic-trailing-whitespace", "langchain-ai/langchain#35071", "2026-09-01"),
        Fact("anthropic-cache-control-limit", "Claude documentation: prompt caching", "2026-09-01"),
        Fact("anthropic-tools-missing", "vercel/ai#16991", "2026-09-01"),
        Fact("anthropic-thinking-when-disabled", "tailcallhq/forgecode#1853", "2026-09-01"),
        Fact("anthropic-thinking-must-lead", "Claude documentation: extended thinking", "2026-09-01"),
        Fact("anthropic-empty-text", "anthropics/anthropic-sdk-python#461", "2026-09-01"),
        Fact("anthropic-role-system", "Claude documentation: messages; recorded traffic of Opus 4.8", "2026-11-01"),
        Fact(
            "anthropic-first-message-user",
            "the literal refusal in lobehub/lobehub#1601, mckaywrigley/chatbot-ui#1656",
            "2026-11-30",
        ),
    ),
)

NO_PREFILL = replace(
    PROFILE,
    id="anthropic-no-prefill",
    models=("claude-opus-4-[6-9]*", "claude-sonnet-4-[6-9]*", "claude-haiku-4-[6-9]*", "claude-[a-z]*-5*"),
    last_user="always",
    trims_last_text=False,
)
"""Newer models do not continue an assistant message."""

OPUS_4_8 = replace(
    NO_PREFILL, id="anthropic-opus-4-8", models=("claude-opus-4-8*",), system_between=True, system_after_user=True
)
"""Takes system messages between the turns."""

MANUAL_THINKING = replace(
    PROFILE,
    id="anthropic-manual-thinking",
    models=("claude-3-7*", "claude-opus-4-[015]*", "claude-sonnet-4-[05]*", "claude-haiku-4-5*", "claude-*-4-20*"),
    thinking_leads=True,
)
"""Thinking with a budget: the open tool loop has to begin with it."""

OLD = replace(PROFILE, id="anthropic-3", models=("claude-3-*",), declares_called_tools=True)
"""Wants tools declared where the history holds calls."""

ALL = (MANUAL_THINKING, OPUS_4_8, NO_PREFILL, OLD, PROFILE)

ELSEWHERE = tuple(
    replace(profile, id=f"{provider}-{profile.id}", provider=provider, title=f"Claude on {title}")
    for provider, title in (("vertex", "Vertex AI"), ("bedrock", "Bedrock"))
    for profile in ALL
)
"""The Messages API on other platforms checks the same."""
