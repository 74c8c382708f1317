"""Gemini, on Google's API and on Vertex AI."""

from msgspec.structs import replace

from memory.profiles.profile import Fact, IdFormat, Profile

_FILES = (
    "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "audio/*", "video/*", "application/pdf",
    "text/plain", "text/markdown", "text/csv", "text/x-*",
)  # fmt: skip
"""The media types that the API names."""
_PART_KEYS = ("videoMetadata", "mediaResolution", "partMetadata")

PROFILE = Profile(
    id="gemini",
    provider="gemini",
    title="Gemini",
    protocol="gemini-contents",
    tool_names=IdFormat(refused="[^a-zA-Z0-9_.:-]", longest=64, may_be_empty=False, refused_first="[^a-zA-Z_]"),
    reasoning="own",
    signs_parts=True,
    namespace="google",
    also_under="vertex",
    files_inline=_FILES,
    files_by_url=_FILES,
    url_schemes=("https", "http", "gs"),
    hosted_call_marks=("type",),
    hosted_result_marks=("type",),
    blank_text="drop-empty",
    further={
        **dict.fromkeys(
            (
                "text.extra",
                "said.extra",
                "image.extra",
                "file.extra",
                "reasoning.extra",
                "call.extra",
                "hosted.extra",
                "result.resultPart",
            ),
            _PART_KEYS,
        ),
        "hosted.resultPart": (*_PART_KEYS, "thoughtSignature"),
        "image.inner": ("displayName",),
        "file.inner": ("displayName",),
        "call.call": ("partialArgs", "willContinue"),
        "result.result": ("willContinue", "scheduling"),
        "hosted.call": ("language", "toolType"),
        "hosted.result": ("outcome", "toolType"),
    },
    assistant_files=True,
    exact_types=True,
    pending_call="synthesise",
    unpaired="to-text",
    unique_ids="",
    system_between=False,
    first_user="synthesise",
    last_user="always",
    rules={
        "tool-name": "gemini-function-name",
        "input-object": "gemini-function-response-object",
        "pending-call": "gemini-function-response-count",
        "unpaired": "gemini-function-response-count",
        "call-signature": "gemini-thought-signature-missing",
        "part-signature": "gemini-thought-signature-invalid",
        "empty-message": "gemini-empty-parts",
        "blank-text": "gemini-empty-parts",
        "media-type": "gemini-mime-type",
        "file": "gemini-mime-type",
        "first-user": "gemini-function-call-order",
        "role-order": "gemini-function-call-order",
        "last-user": "gemini-turn-end",
    },
    facts=(
        Fact("gemini-function-name", "google-gemini/gemini-cli#7878", "2026-09-01"),
        Fact(
            "gemini-function-response-object",
            "the literal refusal in symfony/ai#2040, AstrBotDevs/AstrBot#7216",
            "2026-11-30",
        ),
        Fact("gemini-function-response-count", "google-gemini/gemini-cli#3814", "2026-09-01"),
        Fact("gemini-thought-signature-invalid", "google-gemini/gemini-cli#13467", "2026-09-01"),
        Fact("gemini-thought-signature-missing", "Gemini documentation: thought signatures", "2026-09-01"),
        Fact("gemini-empty-parts", "agentscope-ai/agentscope#2013", "2026-09-01"),
        Fact("gemini-mime-type", "google-gemini/gemini-cli#5882", "2026-09-01"),
        Fact("gemini-function-call-order", "continuedev/continue#11047", "2026-09-01"),
        Fact(
            "gemini-turn-end",
            "the literal refusals in microsoft/semantic-kernel#13288, songquanpeng/one-api#836",
            "2026-11-30",
        ),
    ),
)
"""Matches responses by position and count, not by id."""

SIGNED = replace(PROFILE, id="gemini-3", signs_calls=True)
"""Gemini 3 and what bears no number wants a thought signature on the first call of a step."""

OLD = replace(PROFILE, id="gemini-2", models=("gemini-[12]*",), merge_roles=("assistant",))

ALL = (
    OLD,
    replace(SIGNED, drops_empty=("system", "assistant")),
    *(
        replace(profile, provider="vertex", title="Vertex AI", id=profile.id.replace("gemini", "vertex"))
        for profile in (OLD, SIGNED)
    ),
)
"""On Google's own API, Gemini 3 takes an empty text of the user."""
