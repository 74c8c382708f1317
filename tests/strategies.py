"""Stored threads of every part type and state, error graphs, and arrivals, for property tests."""

from typing import Any

from hypothesis import strategies as st

STATES = ("call", "approval-requested", "approval-responded", "result", "output-error", "output-denied")
OPEN_STATES = STATES[:3]
CALL_IDS = ("a.1", "a:1", "a_1", "a_1_2", "", "functions.search:0", "x" * 50, "é")
TOOL_NAMES = ("search", "se arch", "se.arch", "", "n" * 140)
NAMESPACES = ("anthropic", "openai", "azure", "google", "mastra", "cerebras")
PROVIDERS = ("anthropic", "vertex", "minimax", "openai", "cerebras", "other")

texts = st.sampled_from(["", " ", "\n", "hello", "two\nlines", "é😀"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["k", "value", "type"]), inner, max_size=2)
    ),
    max_leaves=4,
)
options = st.dictionaries(
    st.sampled_from(NAMESPACES),
    st.dictionaries(
        st.sampled_from(["signature", "redactedData", "itemId", "k"]), st.sampled_from(["", "s1", "s2"]), max_size=2
    ),
    max_size=2,
)


@st.composite
def with_metadata(draw: st.DrawFn, part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "providerMetadata": draw(options)} if draw(st.booleans()) else part


@st.composite
def tool_parts(draw: st.DrawFn, states: tuple[str, ...] = STATES, *, may_be_alone: bool = True) -> dict[str, Any]:
    state = draw(st.sampled_from(states))
    invocation = {
        "state": state,
        "toolCallId": draw(st.sampled_from(CALL_IDS)),
        "toolName": draw(st.sampled_from(TOOL_NAMES)),
        "args": draw(st.dictionaries(st.sampled_from(["x", "y"]), values, max_size=2)),
    }
    if state == "result":
        invocation["result"] = draw(values)
    elif state == "output-error":
        invocation["errorText"] = draw(texts)
    part: dict[str, Any] = {"type": "tool-invocation", "toolInvocation": invocation}
    if draw(st.integers(0, 4)) == 0 and (may_be_alone or state not in OPEN_STATES):
        part["providerExecuted"] = True
    part = draw(with_metadata(part))
    if may_be_alone and state == "result" and draw(st.integers(0, 4)) == 0:
        metadata = part.get("providerMetadata", {})
        part["providerMetadata"] = {**metadata, "mastra": {**metadata.get("mastra", {}), "orphanResult": True}}
    if state == "result" and draw(st.integers(0, 4)) == 0:
        metadata = part.get("providerMetadata", {})
        part["providerMetadata"] = {**metadata, "mastra": {**metadata.get("mastra", {}), "modelOutput": draw(values)}}
    return part


@st.composite
def plain_parts(draw: st.DrawFn, role: str) -> dict[str, Any]:
    kinds = ["text", "file", "data-note", "source"] + (["reasoning", "step-start"] if role == "assistant" else [])
    match draw(st.sampled_from(kinds)):
        case "text":
            return draw(with_metadata({"type": "text", "text": draw(texts)}))
        case "file":
            return {"type": "file", "mimeType": "image/png", "data": "AAAA"}
        case "reasoning":
            text, sealed = {"type": "text", "text": draw(texts)}, {"type": "redacted", "data": "x"}
            details = [text if draw(st.booleans()) else sealed]
            return draw(with_metadata({"type": "reasoning", "reasoning": draw(texts), "details": details}))
        case "step-start":
            return {"type": "step-start"}
        case "source":
            return {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "https://x.invalid"}}
        case _:
            return {"type": "data-note", "data": draw(values)}


@st.composite
def messages(draw: st.DrawFn, number: int, *, tools: Any = None) -> dict[str, Any]:
    """The message with this number."""
    role = draw(st.sampled_from(["user", "assistant", "assistant", "signal"]))
    kinds = plain_parts(role)
    if role == "assistant":
        kinds = kinds | (tool_parts() if tools is None else tools)
    content: dict[str, Any] = {"format": 2, "parts": draw(st.lists(kinds, max_size=4))}
    if role == "assistant" and draw(st.booleans()):
        content["metadata"] = {"provider": draw(st.sampled_from(PROVIDERS)), "modelId": "m"}
    if draw(st.integers(0, 5)) == 0:
        content["content"] = draw(texts)
    return {"id": f"m{number}", "role": role, "createdAt": f"2026-02-10T08:00:{number:02d}.000Z", "content": content}


@st.composite
def threads(draw: st.DrawFn, *, tools: Any = None, max_size: int = 6) -> list[dict[str, Any]]:
    """A stored thread; without `tools` of every kind: open, late, orphaned and repeated calls, odd ids and names."""
    return [draw(messages(number, tools=tools)) for number in range(draw(st.integers(0, max_size)))]


settled_tools = tool_parts(may_be_alone=False)
"""Calls whose outcome, if any, stands in their own part: what a thread holds that only grows at its end."""


@st.composite
def error_graphs(draw: st.DrawFn) -> Any:
    """Errors and dicts that cause each other in any way, cycles too; the first one."""
    count = draw(st.integers(1, 6))
    nodes: list[Any] = [Exception(f"e{i}") if draw(st.booleans()) else {"message": f"d{i}"} for i in range(count)]
    keys = ["cause", "error", "data"]
    for node in nodes:
        for key in draw(st.lists(st.sampled_from(keys), unique=True)):
            target = draw(st.sampled_from([*nodes, None, "text", 5]))
            if isinstance(node, dict):
                node[key] = target
            else:
                setattr(node, key, target)
        flag = draw(st.sampled_from([None, True, False]))
        if isinstance(node, dict):
            node["isRetryable"] = flag
        else:
            node.is_retryable = flag
    return nodes[0]
