"""Errors to begin with in the error lab, in the words that providers use."""

from __future__ import annotations

from msgspec import Struct


class ErrorExample(Struct, frozen=True):
    """An error as it is pasted."""

    title: str
    provider: str
    model: str
    status: int
    headers: str
    body: str


EXAMPLES = (
    ErrorExample(
        "Overloaded",
        "anthropic",
        "claude-sonnet-4-5",
        529,
        "retry-after: 8\nx-should-retry: true",
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    ),
    ErrorExample(
        "Rate limit with a wait",
        "openai",
        "gpt-5",
        429,
        "retry-after-ms: 1250",
        '{"error":{"message":"Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000,'
        ' Used 29500, Requested 1200. Please try again in 1.25s.","type":"tokens","code":"rate_limit_exceeded"}}',
    ),
    ErrorExample(
        "Tool ids of another provider",
        "anthropic",
        "claude-sonnet-4-5",
        400,
        "",
        '{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0.tool_use.id: String'
        " should match pattern '^[a-zA-Z0-9_-]+$'\"}}",
    ),
    ErrorExample(
        "Reasoning signed for another model",
        "anthropic",
        "claude-sonnet-4-5",
        400,
        "",
        '{"type":"error","error":{"type":"invalid_request_error","message":"messages.5.content.0: Invalid `signature`'
        ' in `thinking` block"}}',
    ),
    ErrorExample(
        "A call without its result",
        "openai",
        "gpt-4o",
        400,
        "",
        '{"error":{"message":"An assistant message with \'tool_calls\' must be followed by tool messages responding to'
        ' each \'tool_call_id\'.","type":"invalid_request_error","param":"messages","code":null}}',
    ),
    ErrorExample(
        "Context too long",
        "openai",
        "gpt-4o",
        400,
        "",
        '{"error":{"message":"This model\'s maximum context length is 128000 tokens. However, your messages resulted in'
        ' 130012 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}',
    ),
    ErrorExample(
        "Out of credit",
        "openai",
        "gpt-4o",
        429,
        "",
        '{"error":{"message":"You exceeded your current quota, please check your plan and billing details.",'
        '"type":"insufficient_quota","param":null,"code":"insufficient_quota"}}',
    ),
    ErrorExample(
        "A wrong key",
        "anthropic",
        "claude-sonnet-4-5",
        401,
        "",
        '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}',
    ),
)
