"""OpenAI's models on Chat Completions."""

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, Profile

PROFILE = Profile(
    id="openai-chat",
    provider="openai",
    title="OpenAI chat",
    protocol="openai-chat",
    tool_ids=IdFormat(longest=40, may_be_empty=False),
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    reasoning="drop",
    namespace="openai",
    files_inline=("image/*", "application/*", "text/*"),
    files_by_url=("image/*",),
    media_in_results=False,
    pending_call="synthesise",
    hosts_tools=False,
    drops_empty=("user", "assistant"),
    empty_result="",
    url_schemes=("https", "http"),
    message_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    further={
        **dict.fromkeys(("user.extra", "system.extra", "result.resultExtra"), ("name",)),
        "assistant.extra": ("name", "function_call", "audio", "annotations", "reasoning_details"),
        "image.inner": ("detail",),
    },
    further_forms={
        **dict.fromkeys(("function_call", "audio"), ("{}",)),
        **dict.fromkeys(("annotations", "reasoning_details"), ("[]",)),
        "detail": ("auto", "low", "high", "original"),
    },
    input_object=False,  # any text is taken as arguments
    unpaired="to-text",
    rules={
        "tool-id": "openai-chat-tool-id-length",
        "tool-name": "openai-chat-tool-name",
        "message-name": "openai-chat-message-name",
        "reasoning": "openai-chat-foreign-part",
        "pending-call": "openai-chat-tool-result-missing",
        "unpaired": "openai-chat-tool-result-orphan",
        "empty-message": "openai-chat-null-content",
        "media-in-result": "openai-chat-image-in-tool",
    },
    facts=(
        Fact("openai-chat-tool-id-length", "vercel/ai#5171", "2026-09-01"),
        Fact("openai-chat-message-name", "jekalmin/extended_openai_conversation#251", "2026-09-01"),
        Fact("openai-chat-tool-name", "mcp-use/mcp-use#94", "2026-09-01"),
        Fact("openai-chat-foreign-part", "BerriAI/litellm#22997", "2026-09-01"),
        Fact("openai-chat-tool-result-missing", "langchain-ai/langchain#25716", "2026-09-01"),
        Fact("openai-chat-null-content", "vercel/ai#13744", "2026-09-01"),
        Fact("openai-chat-image-in-tool", "OpenHands/OpenHands#7700", "2026-09-01"),
        Fact("openai-chat-tool-result-orphan", "microsoft/semantic-kernel#12708", "2026-09-01"),
    ),
)

AUDIO = replace(PROFILE, id="openai-chat-audio", models=("*audio*",), files_inline=("audio/*", *PROFILE.files_inline))

ALL = (AUDIO, PROFILE)
