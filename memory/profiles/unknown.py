"""A provider we know nothing about: what every chat API insists on, nothing else."""

from memory.profiles.profile import IdFormat, Profile

PROFILE = Profile(
    id="unknown",
    provider="",
    title="Unknown",
    tool_ids=IdFormat(may_be_empty=False),
    files_inline=("image/*", "audio/*", "application/*", "text/*"),
    files_by_url=("image/*",),
    media_in_results=False,
    hosts_tools=False,
    empty_result="",
    pending_call="synthesise",
    unpaired="to-text",
)
