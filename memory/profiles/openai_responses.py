"""OpenAI's models on Responses."""

from collections.abc import Mapping

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, Profile

_MESSAGE_KEYS = ("type", "id", "status", "phase")
_FURTHER: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("user.item", "system.item", "assistant.item", "text.item", "said.item"), _MESSAGE_KEYS),
    **dict.fromkeys(("user.content", "system.content", "text.content"), ("prompt_cache_breakpoint",)),
    "said.content": ("annotations", "logprobs"),
    "image.content": ("type", "detail", "file_id", "filename", "prompt_cache_breakpoint"),
    "file.content": ("type", "file_id", "filename", "detail", "prompt_cache_breakpoint"),
    "reasoning.item": ("status", "content"),
    "call.call": ("status", "namespace"),
    "result.result": ("status",),
    **dict.fromkeys(("hosted.call", "hosted.result"), ("*",)),
}
_FORMS: Mapping[str, tuple[str, ...]] = {
    "status": ("in_progress", "completed", "incomplete"),
    "phase": ("commentary", "final_answer"),
    "prompt_cache_breakpoint": ("{}",),
    **dict.fromkeys(("annotations", "logprobs"), ("[]",)),
    "image.content.detail": ("auto", "low", "high", "original"),
    "file.content.detail": ("auto", "low", "high"),
}

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
    also_under="azure",
    item_ids=True,
    checks_item_ids=True,
    seal_prefix="gAAAA",
    files_inline=("image/*", "application/*", "text/*"),
    files_by_url=("image/*", "application/*", "text/*"),
    drops_empty=("user", "assistant"),
    url_schemes=("https", "http"),
    hosted_call_marks=("call.type", "itemId"),
    further=_FURTHER,
    further_forms=_FORMS,
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

_NULL = Fact("xai-null-field", "Wei-Shaw/sub2api#4237", "2026-09-01")

_XAI = {"null-field": "xai-null-field", "blank-text": "xai-empty-content"}

ELSEWHERE = tuple(
    replace(
        PROFILE,
        id=f"{provider}-responses",
        provider=provider,
        title=f"{title} Responses",
        checks_item_ids=False,
        seal_prefix="",
        null_fields=provider != "xai",
        blank_text="drop-empty" if provider == "xai" else "accept",
        rules={**PROFILE.rules, **(_XAI if provider == "xai" else {})},
        facts=(*PROFILE.facts, *((_NULL,) if provider == "xai" else ())),
    )
    for provider, title in (
        ("xai", "xAI"),
        ("deepseek", "DeepSeek"),
        ("bedrock", "Bedrock"),
        ("openrouter", "OpenRouter"),
    )
)
"""Hosts of the same API."""
