"""Amazon Bedrock's Converse API."""

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, ImageLimits, Profile

_FILES = (
    "image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp",
    "application/pdf", "text/csv", "text/html", "text/plain", "text/markdown", "application/msword",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/vnd.ms-excel",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "video/mp4", "video/quicktime", "video/x-matroska", "video/webm", "video/x-flv", "video/mpeg", "video/x-ms-wmv",
    "video/3gpp",
)  # fmt: skip
"""The formats that the API names."""

PROFILE = Profile(
    id="bedrock",
    provider="bedrock",
    title="Bedrock",
    protocol="bedrock-converse",
    tool_ids=IdFormat(refused="[^a-zA-Z0-9_.:-]", longest=64, may_be_empty=False),
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    reasoning="own",
    seals_by_model=True,
    reads_sealed=False,
    namespace="bedrock",
    files_inline=_FILES,
    files_by_url=_FILES,
    unique_documents=True,
    hosted_call_marks=("call.type",),
    hosted_result_marks=("isHosted",),
    further={
        "file.extra": ("context", "citations"),
        "call.call": ("type",),
        "hosted.call": ("type",),
        "result.result": ("type", "status"),
        "hosted.result": ("type", "status"),
    },
    further_forms={"status": ("success", "error"), "citations": ("{}",)},
    url_schemes=("s3",),
    urls_in_results=False,
    exact_types=True,
    text_beside_documents=True,
    blank_text="drop",
    break_after_file=True,
    hosts_tools=False,
    pending_call="synthesise",
    unpaired="to-text",
    system_between=False,
    first_user="synthesise",
    merge_roles=("user", "assistant"),
    last_user="always",
    declares_called_tools=True,
    rules={
        "tool-id": "bedrock-tool-id-pattern",
        "tool-name": "bedrock-tool-name-pattern",
        "duplicate-id": "bedrock-tool-id-duplicate",
        "reasoning": "bedrock-reasoning-foreign",
        "pending-call": "bedrock-tool-result-missing",
        "unpaired": "bedrock-tool-result-orphan",
        "blank-text": "bedrock-blank-text",
        "empty-message": "bedrock-empty-content",
        "document-text": "bedrock-document-rules",
        "document-name": "bedrock-document-rules",
        "first-user": "bedrock-role-order",
        "role-order": "bedrock-role-order",
        "tools-declared": "bedrock-tool-config-missing",
    },
    facts=(
        Fact("bedrock-tool-id-pattern", "AWS API reference: ToolUseBlock", "2026-09-01"),
        Fact("bedrock-tool-name-pattern", "openclaw/openclaw#12892", "2026-09-01"),
        Fact("bedrock-tool-id-duplicate", "bvcyber/Cyber-AutoAgent-ng#72", "2026-09-01"),
        Fact("bedrock-reasoning-foreign", "mastra-ai/mastra#22159", "2026-09-01"),
        Fact("bedrock-tool-result-missing", "agno-agi/agno#6698", "2026-09-01"),
        Fact("bedrock-tool-result-orphan", "pydantic/pydantic-ai#2327", "2026-09-01"),
        Fact("bedrock-blank-text", "OpenHands/OpenHands#5339", "2026-09-01"),
        Fact("bedrock-empty-content", "posit-dev/chatlas#429", "2026-09-01"),
        Fact("bedrock-document-rules", "archestra-ai/archestra#4220", "2026-09-01"),
        Fact(
            "bedrock-role-order",
            "the literal refusal in langchain-ai/langchain-aws#130, microsoft/semantic-kernel#10281",
            "2026-11-30",
        ),
        Fact("bedrock-tool-config-missing", "vxcontrol/pentagi#196", "2026-09-01"),
    ),
)

CLAUDE = replace(
    PROFILE,
    id="bedrock-claude",
    title="Claude on Bedrock",
    models=("claude*",),
    tool_ids=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    reasoning="native",
    seals=("signature", "redactedData"),
    reads_sealed=True,
    signers=("anthropic", "vertex", "bedrock"),
    namespace="anthropic",
    kept_under="bedrock",
    cache_markers=4,
    last_user="",
    images=ImageLimits(most_bytes=3_750_000, most=100),
    trims_last_text=True,
    files_by_url=(),
)
"""Signs as Anthropic does, and checks as Anthropic does."""

ALL = (CLAUDE, PROFILE)
