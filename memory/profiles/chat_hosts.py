"""Hosts that speak OpenAI's chat format, each with its own refusals."""

from msgspec.structs import replace

from memory.hosts import HOSTS, Host
from memory.profiles import openai_chat
from memory.profiles.profile import Fact, IdFormat, ImageLimits, Profile

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
    url_schemes=("https", "http"),
    hosts_tools=False,
    empty_result="",
    pending_call="synthesise",
    unpaired="to-text",
)

MISTRAL = replace(
    _HOST,
    id="mistral",
    provider="mistral",
    title="Mistral",
    namespace="mistral",
    developer_role=False,
    thinks_alone=False,
    further={
        "assistant.extra": ("prefix",),
        "result.resultExtra": ("name",),
        "call.callExtra": ("index",),
        "image.inner": ("detail",),
    },
    further_forms={"index": ("0",)},
    tool_ids=IdFormat(refused="[^a-zA-Z0-9]", exactly=9, may_be_empty=False),
    reasoning="drop",
    bridge_after_tool=True,
    last_user="always",
    rules={
        "tool-id": "mistral-tool-id-format",
        "unknown-field": "mistral-extra-field",
        "user-after-tool": "mistral-user-after-tool",
        "pending-call": "mistral-tool-order",
        "unpaired": "mistral-tool-order",
        "last-user": "mistral-last-role",
        "reasoning": "mistral-reasoning-unsupported",
        "media-in-result": "mistral-tool-content",
        "empty-message": "mistral-empty-assistant",
    },
    facts=(
        Fact("mistral-extra-field", "charmbracelet/crush#1590", _DAY),
        Fact("mistral-tool-id-format", "mistral-common documentation: tools", _DAY),
        Fact("mistral-user-after-tool", "NousResearch/hermes-agent#20154", _DAY),
        Fact("mistral-tool-order", "charmbracelet/crush#279", _DAY),
        Fact("mistral-last-role", "microsoft/autogen#5044", _DAY),
        Fact("mistral-reasoning-unsupported", "suitenumerique/conversations#402", _DAY),
        Fact("mistral-tool-content", "LibreChat-AI/agents#344", _DAY),
        Fact(
            "mistral-empty-assistant",
            "the literal refusal in OpenHands/OpenHands#8685, solbrowse/extension#16",
            "2026-11-30",
        ),
    ),
)

MAGISTRAL = replace(MISTRAL, id="mistral-reasoning", models=("magistral*",), reasoning="native", seals=("block",))
"""Reads its own thinking chunks."""

GROQ = replace(
    _HOST,
    id="groq",
    provider="groq",
    title="Groq",
    namespace="groq",
    reasoning="drop",
    listed_system=False,
    images=ImageLimits(longest=20_000, longest_of_many=20_000, most_bytes=4 * 1024 * 1024, most=5),
    further={
        **dict.fromkeys(("text.extra", "said.extra", "image.extra", "image.inner", "call.callExtra"), ("*",)),
        **dict.fromkeys(("user.extra", "system.extra", "result.resultExtra"), ("name",)),
        "assistant.extra": ("name", "function_call"),
    },
    rules={
        "reasoning": "groq-unsupported-property",
        "unknown-field": "groq-unsupported-property",
        "content-string": "groq-content-string",
    },
    facts=(
        Fact("groq-unsupported-property", "janhq/jan#8136", _DAY),
        Fact("groq-content-string", "livekit/agents#1790", _DAY),
    ),
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
    developer_role=False,
    rules={
        "reasoning-required": "deepseek-reasoning-required",
        "file": "deepseek-image-part",
        "developer-role": "deepseek-role",
    },
    facts=(
        Fact("deepseek-role", "BenedictKing/ccx#139", _DAY),
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
    thinks_alone=False,
    empty_result="(no output)",
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
    developer_role=False,
    thinks_alone=False,
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
    MOONSHOT, id="moonshot-plain", models=("moonshot-v1*", "kimi-k2-0*"), reasoning_filler="",
    files_inline=(), files_by_url=(),
)  # fmt: skip
"""Models without thinking, which read text only."""

MOONSHOT_SEEING = replace(MOONSHOT, id="moonshot-seeing", models=("*vision*", "kimi-latest*"), reasoning_filler="")
"""Models without thinking that see."""

QWEN = replace(
    _HOST,
    id="qwen",
    provider="qwen",
    title="Qwen",
    namespace="qwen",
    reasoning="own",
    developer_role=False,
    rules={
        "developer-role": "qwen-role",
        "input-object": "qwen-arguments-json",
        "pending-call": "qwen-tool-order",
        "unpaired": "qwen-tool-order",
    },
    facts=(
        Fact("qwen-role", "proma-ai/Proma#1496", _DAY),
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
    developer_role=False,
    thinks_alone=False,
    empty_result="(no output)",
    unique_ids="thread",
    blank_text="drop",
    first_user="synthesise",
    rules={**dict.fromkeys(_ALL_OF_ZHIPU, "zhipu-messages-illegal"), "unknown-field": "zhipu-part-field"},
    facts=(
        Fact("zhipu-messages-illegal", "lobehub/lobehub#11408", _DAY),
        Fact("zhipu-part-field", "BigPizzaV3/CodexPlusPlus#329", _DAY),
    ),
)

MINIMAX = replace(
    _HOST,
    id="minimax",
    provider="minimax",
    title="MiniMax",
    namespace="minimax",
    tool_ids=IdFormat(refused="[^a-zA-Z0-9_-]", may_be_empty=False),
    reasoning="drop",  # the answer's thoughts have no key to go back under
    developer_role=False,
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
    developer_role=False,
    further={
        **dict.fromkeys(("text.extra", "said.extra", "image.extra", "image.inner", "call.callExtra"), ("*",)),
        **dict.fromkeys(("user.extra", "system.extra", "assistant.extra", "result.resultExtra"), ("name",)),
    },
    rules={"reasoning": "fireworks-extra-field", "unknown-field": "fireworks-extra-field"},
    facts=(Fact("fireworks-extra-field", "FlowiseAI/Flowise#2866", _DAY),),
)

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

HUGGINGFACE = replace(
    _HOST,
    id="huggingface",
    provider="huggingface",
    title="Hugging Face",
    namespace="huggingface",
    reasoning="drop",  # which host answers is open, and with it the key that reasoning would go under
)

_UPSTREAMS = (
    ("openai", ("openai/*",), openai_chat.PROFILE),
    ("mistral", ("mistralai/*",), MISTRAL),
    ("deepseek-chat", ("deepseek/deepseek-chat*",), DEEPSEEK_CHAT),
    ("deepseek", ("deepseek/*",), DEEPSEEK),
    ("xai", ("x-ai/*",), XAI),
    ("moonshot-plain", ("moonshotai/kimi-k2", "moonshotai/kimi-k2-0*"), MOONSHOT_PLAIN),
    ("moonshot", ("moonshotai/*",), MOONSHOT),
    ("qwen", ("qwen/*",), QWEN),
    ("zhipu", ("z-ai/*",), ZHIPU),
    ("minimax", ("minimax/*",), MINIMAX),
)
_ROUTED = {
    **dict.fromkeys(("text.extra", "said.extra", "system.part"), ("cache_control",)),
    **dict.fromkeys(("user.extra", "system.extra", "assistant.extra", "result.resultExtra", "reasoning.extra"), ("*",)),
}
"""The router keeps cache markers to itself, and passes on only the keys of messages that it knows."""
_DETAILS = Fact("openrouter-reasoning-details", "massgen/MassGen#665", _DAY)
OPENROUTER_UPSTREAMS = tuple(
    replace(
        profile,
        id=f"openrouter-{name}",
        provider="openrouter",
        title=f"{profile.title} on OpenRouter",
        models=models,
        namespace="openrouter",
        further=profile.further and {**profile.further, **_ROUTED},
        reasoning=profile.reasoning if name == "mistral" else "own",
        rules={
            **profile.rules,
            "reasoning": profile.rules["reasoning"] if name == "mistral" else "openrouter-reasoning-details",
        },
        facts=(
            profile.facts
            if name == "mistral"
            else (*(fact for fact in profile.facts if fact.rule != profile.rules.get("reasoning")), _DETAILS)
        ),
    )
    for name, models, profile in _UPSTREAMS
)
"""The upstream decides what is taken. Claude and Gemini are spoken to through a rewriting of the router's own."""

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
    MAGISTRAL, MISTRAL, GROQ, DEEPSEEK_CHAT, DEEPSEEK, XAI, MOONSHOT_SEEING, MOONSHOT_PLAIN, MOONSHOT, QWEN, ZHIPU,
    MINIMAX, FIREWORKS,
    *OPENROUTER_UPSTREAMS, OPENROUTER, HUGGINGFACE, *SELF_HOSTED, *map(profile_of, HOSTS),
)  # fmt: skip
