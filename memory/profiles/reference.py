"""How the reference system repairs every prompt, whatever its target."""

from memory.profiles.profile import IdFormat, Profile

PROFILE = Profile(
    id="reference",
    provider="",
    title="Reference",
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", may_be_empty=False),
    blank_text="drop",
    pending_call="drop",
    unpaired="drop",
    first_user="synthesise",
)
