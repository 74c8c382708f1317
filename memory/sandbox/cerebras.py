"""What Cerebras refuses: OpenAI's chat protocol with a closed list of keys, text only, reasoning as `reasoning`.

Source: Cerebras API reference (chat completions), errors reported by client projects, and recorded exchanges; last seen
September 2026.
"""

import re
from collections.abc import Mapping
from typing import Any

from memory.sandbox.openai_chat import bearer, check_pairs, check_request
from memory.sandbox.wire import BadJson, Refused, words

_REASONING_MODEL = re.compile(r"gpt-oss|zai-glm|qwen-3-32b$|deepseek-r1|thinking")
_REQUEST_KEYS = words(
    "clear_thinking disable_reasoning frequency_penalty logit_bias logprobs max_completion_tokens max_tokens "
    "messages min_tokens model n parallel_tool_calls prediction presence_penalty reasoning_effort "
    "reasoning_format response_format seed service_tier stop stream stream_options temperature tool_choice tools "
    "top_logprobs top_p user"
)
_MESSAGE_KEYS = {
    "assistant": {"role", "content", "name", "tool_calls"},
    "tool": {"role", "content", "name", "tool_call_id"},
}


def authorise(headers: Mapping[str, str]) -> None:
    """Any key is right; raises Refused with 401 without one."""
    if not bearer(headers):
        raise failure(401)


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {"message": refused.message, "type": refused.kind, "param": refused.param, "code": refused.code}


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused("Wrong API Key", status=401, param="api_key", code="wrong_api_key")
    if status == 429:
        message = "We're experiencing high traffic right now! Please try again soon."
        return Refused(message, status=429, kind="too_many_requests_error", param="queue", code="queue_exceeded")
    if status >= 500:
        return Refused("Encountered a server error, please try again.", status=status, kind="server_error")
    return Refused("Not found" if status == 404 else "Error", status=status)


def bad_json(error: BadJson) -> Refused:
    reason = "lone leading surrogate in hex escape" if error.is_surrogate else error.reason
    return Refused(f"Failed to parse the request body: Invalid JSON: {reason}", code="wrong_api_format")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    if not isinstance(body, dict):
        raise Refused("The request body is expected to be a JSON object.", code="wrong_api_format")
    for key in body:
        if key not in _REQUEST_KEYS:
            raise _unsupported(key)
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        if isinstance(message, dict):
            _check_keys(message, index, str(body.get("model")))
    check_request(body)
    check_pairs(body["messages"])


def is_reasoning(model_id: str) -> bool:
    return _REASONING_MODEL.search(model_id) is not None


def shows_reasoning(body: dict[str, Any]) -> bool:
    """Whether the answer shows reasoning: where the model reasons and was not told not to."""
    is_off = body.get("reasoning_effort") == "none" or body.get("disable_reasoning") is True
    return is_reasoning(body["model"]) and not is_off


def _check_keys(message: dict[str, Any], index: int, model_id: str) -> None:
    role = message.get("role")
    if not isinstance(role, str):
        return
    known = _MESSAGE_KEYS.get(role, {"role", "content", "name"})
    for key in message:
        if key in known or (key == "reasoning" and role == "assistant" and is_reasoning(model_id)):
            continue
        raise _unsupported(f"messages.{index}.{role}.{key}")
    content = message.get("content")
    for at, part in enumerate(content if isinstance(content, list) else []):
        if isinstance(part, dict) and part.get("type") != "text":
            raise _unsupported(f"messages.{index}.{role}.content.{at}.{part.get('type')}")


def _unsupported(place: str) -> Refused:
    return Refused(f"{place}: property '{place}' is unsupported", param="validation_error", code="wrong_api_format")
