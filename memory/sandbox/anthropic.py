"""Anthropic's Messages API: who may call, what it refuses in its own words, its error bodies.

`Refused` is raised where the vendor answers with an error: the shape of the body first, then the whole conversation.
Source: Anthropic's API reference (messages, extended thinking, tool use, prompt caching), errors reported by client
projects, and recorded requests it did accept; last seen September 2026. What is not listed is refused.
"""

from collections.abc import Mapping
from typing import Any

from memory.sandbox.anthropic_blocks import check_message, check_request
from memory.sandbox.anthropic_turns import check_conversation
from memory.sandbox.openai_chat import bearer
from memory.sandbox.wire import BadJson, Refused


def authorise(headers: Mapping[str, str]) -> None:
    """Any key is right, as `x-api-key` or as a bearer token. Raises Refused: 401 without one, 400 without a version."""
    if not headers.get("x-api-key", "").strip() and not bearer(headers):
        raise Refused("x-api-key header is required", status=401, kind="authentication_error")
    if not headers.get("anthropic-version", "").strip():
        raise Refused("anthropic-version: header is required")


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": refused.kind, "message": refused.message},
        "request_id": request_id,
    }


_FAILURES = {
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not Found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    kind, message = _FAILURES.get(status, ("invalid_request_error" if status < 500 else "api_error", "Error"))
    return Refused(message, status=status, kind=kind)


def bad_json(error: BadJson) -> Refused:
    return Refused(f"The request body is not valid JSON: {error.reason}: {error.place}")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    if not isinstance(body, dict):
        raise Refused("The request body is not valid JSON: Input should be an object")
    check_request(body)
    messages = body["messages"]
    for index, message in enumerate(messages):
        check_message(message, f"messages.{index}", is_last=index == len(messages) - 1)
    check_conversation(body)
