"""Cohere's v2 chat."""

from memory.profiles.profile import Fact, IdFormat, Profile

PROFILE = Profile(
    id="cohere",
    provider="cohere",
    title="Cohere",
    protocol="cohere-v2",
    tool_ids=IdFormat(may_be_empty=False),
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", may_be_empty=False),
    reasoning="own",
    namespace="cohere",
    files_inline=("image/*",),
    files_by_url=("image/*",),
    media_in_results=False,
    url_schemes=("https", "http"),
    further={"image.inner": ("detail",)},
    hosts_tools=False,
    pending_call="synthesise",
    unpaired="to-text",
    rules={"pending-call": "cohere-tool-result-missing", "empty-message": "cohere-empty-message"},
    facts=(
        Fact("cohere-tool-result-missing", "oracle/langchain-oracle#10", "2026-09-01"),
        Fact("cohere-empty-message", "langchain-ai/langchain-cohere#15", "2026-09-01"),
    ),
)
