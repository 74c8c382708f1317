"""Hosts that speak Anthropic's Messages protocol beside their own, and sign nothing."""

from msgspec.structs import replace

from memory.profiles import anthropic
from memory.profiles.profile import Fact

_DAY = "2026-11-30"

_FURTHER = anthropic.PROFILE.further or {}

_HOST = replace(
    anthropic.PROFILE,
    reasoning="own",
    reads_sealed=False,
    reads_blocks=False,  # their lists of supported blocks hold none but those that the module knows
    seals=(),
    further={place: keys for place, keys in _FURTHER.items() if place != "reasoning.extra"},
    signers=(),
    seals_by_model=False,
    final_thinking=True,
    last_user="",
    trims_last_text=False,
    cache_markers=0,
    files_inline=("image/png", "image/jpeg", "image/gif", "image/webp"),
    files_by_url=("image/*",),
)

DEEPSEEK_SEEING = replace(
    _HOST,
    id="deepseek-messages-seeing",
    provider="deepseek",
    title="DeepSeek",
    models=("deepseek-flash*", "deepseek-*vision*"),
    reasoning_filler="empty",
    rules={"reasoning-required": "deepseek-reasoning-required", "file": "deepseek-image-part"},
    facts=(
        Fact("deepseek-reasoning-required", "DeepSeek documentation: thinking mode; decolua/9router#2397", _DAY),
        Fact("deepseek-image-part", "DeepSeek documentation: Messages API; cline/cline#230", _DAY),
    ),
)

DEEPSEEK = replace(
    DEEPSEEK_SEEING, id="deepseek-messages", models=("*",), files_inline=(), files_by_url=(), media_in_results=False
)

MOONSHOT = replace(
    _HOST,
    id="moonshot-messages",
    provider="moonshot",
    title="Moonshot",
    reasoning_filler="placeholder",
    rules={"reasoning-required": "moonshot-reasoning-required"},
    facts=(Fact("moonshot-reasoning-required", "MoonshotAI/kimi-agent-sdk#169", _DAY),),
)

ALL = (DEEPSEEK_SEEING, DEEPSEEK, MOONSHOT)
