"""A provider we know nothing about: what every chat API insists on, nothing else."""

from memory.profiles.profile import IdFormat, Profile

PROFILE = Profile(
    id="unknown",
    provider="",
    title="Unknown",
    tool_ids=IdFormat(may_be_empty=False),
    pending_call="synthesise",
    unpaired="to-text",
)
