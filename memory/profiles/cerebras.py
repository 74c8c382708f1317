"""Cerebras: Chat Completions with an allow-list of keys."""

from memory.profiles.profile import Fact, IdFormat, Profile

PROFILE = Profile(
    id="cerebras",
    provider="cerebras",
    title="Cerebras",
    protocol="openai-chat",
    tool_ids=IdFormat(longest=40, may_be_empty=False),  # as OpenAI, whose API it follows: no report says more
    tool_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    reasoning="drop",
    namespace="cerebras",
    files_inline=(),
    files_by_url=(),
    media_in_results=False,
    empty_result="",
    message_names=IdFormat(refused="[^a-zA-Z0-9_-]", longest=64, may_be_empty=False),
    further=dict.fromkeys(("user.extra", "system.extra", "assistant.extra", "result.resultExtra"), ("name",)),
    hosts_tools=False,
    pending_call="synthesise",
    unpaired="to-text",
    rules={
        "tool-id": "any-tool-id",
        "reasoning": "cerebras-reasoning-content",
    },
    facts=(Fact("cerebras-reasoning-content", "Cerebras documentation: chat completions", "2026-09-01"),),
)
