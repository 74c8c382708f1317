"""Hosts that speak OpenAI's chat format, each with its own refusals."""

from msgspec.structs import replace

from memory.hosts import HOSTS, Host
from memory.profiles.profile import Fact, IdFormat, Profile

_NAMES = IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False)
_DAY = "2026-09-01"

_HOST = Profile(
    id="",
    provider="",
    title="",
    protocol="openai-chat",
    tool_ids=IdFormat(may_be_empty=False),
    tool_names=_NAMES,
    files_inline=("image/*",),
    files_by_url=("image/*",),
    media_in_results=False,
    pending_call="synthesise",
    unpaired="to-text",
)

MISTRAL = replace(
    _HOST,
    id="mistral",
    provider="mistral",
    title="Mistral",
    namespace="mistral",
    tool_ids=IdFormat(refused="[^a-zA-Z0-9]", exactly=9, may_be_empty=False),
    reasoning="drop",
    bridge_after_tool=True,
    last_user="always",
    rules={
        "tool-id": "mistral-tool-id-format",
        "user-after-tool": "mistral-user-after-tool",
        "pending-call": "mistral-tool-order",
        "unpaired": "mistral-tool-order",
        "last-user": "mistral-last-role",
        "reasoning": "mistral-reasoning-unsupported",
        "media-in-result": "mistral-tool-content",
        "empty-message": "mistral-empty-assistant",
    },
    facts=(
        Fact("mistral-tool-id-format", "mistral-common documentation: tools", _DAY),
        Fact("mistral-user-after-tool", "NousResearch/hermes-agent#20154", _DAY),
        Fact("mistral-tool-order", "charmbracelet/crush#279", _DAY),
        Fact("mistral-last-role", "microsoft/autogen#5044", _DAY),
        Fact("mistral-reasoning-unsupported", "suitenumerique/conversations#402", _DAY),
        Fact("mistral-tool-content", "LibreChat-AI/agents#344", _DAY),
        Fact("mistral-empty-assistant", "the words of the API's own refusal", _DAY),
    ),
)

MAGISTRAL = replace(MISTRAL, id="mistral-reasoning", models=("magistral*",), reasoning="own")
"""Reads its own thinking chunks."""

GROQ = replace(
    _HOST,
    id="groq",
    provider="groq",
    title="Groq",
    namespace="groq",
    reasoning="drop",
    rules={"reasoning": "groq-unsupported-property"},
    facts=(Fact("groq-unsupported-property", "janhq/jan#8136", _DAY),),
)

DEEPSEEK = replace(
    _HOST,
    id="deepseek",
    provider="deepseek",
    title="DeepSeek",
    namespace="deepseek",
    reasoning="own",
    reasoning_filler="empty",
    files_inline=(),
    files_by_url=(),
    rules={"reasoning-required": "deepseek-reasoning-required", "file": "deepseek-image-part"},
    facts=(
        Fact("deepseek-reasoning-required", "DeepSeek documentation: thinking mode", _DAY),
        Fact("deepseek-image-part", "cline/cline#230", _DAY),
    ),
)

DEEPSEEK_CHAT = replace(DEEPSEEK, id="deepseek-chat", models=("deepseek-chat*", "deepseek-coder*"), reasoning_filler="")
"""Models without thinking."""

XAI = replace(
    _HOST,
    id="xai",
    provider="xai",
    title="xAI",
    namespace="xai",
    reasoning="own",
    rules={"empty-message": "xai-empty-content"},
    facts=(Fact("xai-empty-content", "AstrBotDevs/AstrBot#6447", _DAY),),
)

MOONSHOT = replace(
    _HOST,
    id="moonshot",
    provider="moonshot",
    title="Moonshot",
    namespace="moonshot",
    reasoning="own",
    reasoning_filler="placeholder",
    rules={
        "reasoning-required": "moonshot-reasoning-required",
        "empty-message": "moonshot-empty-message",
        "file": "moonshot-part-type",
    },
    facts=(
        Fact("moonshot-reasoning-required", "Kimi documentation: thinking models", _DAY),
        Fact("moonshot-empty-message", "MoonshotAI/kimi-code#1985", _DAY),
        Fact("moonshot-part-type", "MoonshotAI/kimi-cli#788", _DAY),
    ),
)

MOONSHOT_PLAIN = replace(
    MOONSHOT, id="moonshot-plain", models=("moonshot-v1*", "kimi-k2-0*", "kimi-latest*"), reasoning_filler=""
)
"""Models without thinking."""

QWEN = replace(
    _HOST,
    id="qwen",
    provider="qwen",
    title="Qwen",
    namespace="qwen",
    reasoning="own",
    rules={
        "input-object": "qwen-arguments-json",
        "pending-call": "qwen-tool-order",
        "unpaired": "qwen-tool-order",
    },
    facts=(
        Fact("qwen-arguments-json", "HKUDS/nanobot#1487", _DAY),
        Fact("qwen-tool-order", "sigoden/aichat#993", _DAY),
    ),
)

_ALL_OF_ZHIPU = (
    "tool-id", "duplicate-id", "pending-call", "unpaired", "blank-text", "empty-message", "first-user",
)  # fmt: skip

ZHIPU = replace(
    _HOST,
    id="zhipu",
    provider="zhipu",
    title="Zhipu",
    namespace="zhipu",
    reasoning="own",
    unique_ids="thread",
    blank_text="drop",
    first_user="synthesise",
    rules=dict.fromkeys(_ALL_OF_ZHIPU, "zhipu-messages-illegal"),
    facts=(Fact("zhipu-messages-illegal", "lobehub/lobehub#11408", _DAY),),
)

MINIMAX = replace(
    _HOST,
    id="minimax",
    provider="minimax",
    title="MiniMax",
    namespace="minimax",
    tool_ids=IdFormat(refused="[^a-zA-Z0-9_-]", may_be_empty=False),
    reasoning="own",
    rules={
        "tool-id": "minimax-tool-id",
        "input-object": "minimax-arguments-json",
        "pending-call": "minimax-tool-pairing",
        "unpaired": "minimax-tool-pairing",
    },
    facts=(
        Fact("minimax-tool-id", "Kilo-Org/kilocode#3967", _DAY),
        Fact("minimax-arguments-json", "earendil-works/pi#5468", _DAY),
        Fact("minimax-tool-pairing", "MiniMax-AI/MiniMax-M2#76", _DAY),
    ),
)

FIREWORKS = replace(
    _HOST,
    id="fireworks",
    provider="fireworks",
    title="Fireworks",
    namespace="fireworks",
    reasoning="own",
    rules={"reasoning": "fireworks-extra-field"},
    facts=(Fact("fireworks-extra-field", "FlowiseAI/Flowise#2866", _DAY),),
)

OPENROUTER_MISTRAL = replace(
    MISTRAL, id="openrouter-mistral", provider="openrouter", title="Mistral on OpenRouter",
    models=("mistralai/*",), namespace="openrouter",
)  # fmt: skip
"""The upstream decides what is taken."""

OPENROUTER = replace(
    _HOST,
    id="openrouter",
    provider="openrouter",
    title="OpenRouter",
    namespace="openrouter",
    reasoning="own",
    rules={"reasoning": "openrouter-reasoning-details"},
    facts=(Fact("openrouter-reasoning-details", "massgen/MassGen#665", _DAY),),
)

SELF_HOSTED = tuple(
    replace(
        _HOST,
        id=name,
        provider=name,
        title=title,
        namespace=name,
        rules={
            "input-object": "vllm-arguments-json",
            "role-order": "vllm-role-alternation",
            "system-turn": "vllm-system-first",
        },
        facts=(
            Fact("vllm-arguments-json", "vllm-project/vllm#43995", _DAY),
            Fact("vllm-role-alternation", "vllm-project/vllm#6862", _DAY),
            Fact("vllm-system-first", "vllm-project/vllm#46976", _DAY),
        ),
    )
    for name, title in (("vllm", "vLLM"), ("ollama", "Ollama"))
)

VLLM_QWEN = replace(
    SELF_HOSTED[0],
    id="vllm-qwen",
    models=("*[qQ]wen3.[5-9]*", "*[qQ]wen[4-9]*"),
    system_between=False,
    merge_roles=("system",),
    rules={"input-object": "vllm-arguments-json"},
    facts=SELF_HOSTED[0].facts[:1],
)
"""Its template takes one system message, at the beginning."""


def profile_of(host: Host) -> Profile:
    """The profile of a host that is known by its facts alone."""
    return replace(
        _HOST,
        id=host.id,
        provider=host.id,
        title=host.title,
        namespace=host.id,
        tool_ids=IdFormat(refused=host.tool_id_refused, longest=host.tool_id_longest, may_be_empty=False),
        reasoning="own" if host.reasoning else "drop",
        files_inline=("image/*",) if host.images else (),
        files_by_url=("image/*",) if host.images else (),
        system_between=not host.system_first,
        merge_roles=("user", "assistant") if host.roles_alternate else (),
        bridge_after_tool=host.roles_alternate,
        last_user="always" if host.user_last else "",
    )


ALL = (
    VLLM_QWEN,
    MAGISTRAL, MISTRAL, GROQ, DEEPSEEK_CHAT, DEEPSEEK, XAI, MOONSHOT_PLAIN, MOONSHOT, QWEN, ZHIPU, MINIMAX, FIREWORKS,
    OPENROUTER_MISTRAL, OPENROUTER, *SELF_HOSTED, *map(profile_of, HOSTS),
)  # fmt: skip
