"""An example of each route's body and answer, by the name of its function; shown at /api/docs, and played by the tests.

`answer_202` is what comes with that status instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_AT = "2026-03-01T09:00:00Z"
_THREAD = {
    "id": "thr_7f3a",
    "title": "A refund",
    "resource_id": "shop/customer-512",
    "agent_id": "support",
    "metadata": {"channel": "web"},
    "message_count": 2,
    "byte_count": 412,
    "last_activity_at": _AT,
    "last_provider": "anthropic",
    "last_model": "claude-sonnet-4-5",
    "last_error": "",
    "created_at": _AT,
}
_CONTENT = {"format": 2, "parts": [{"type": "text", "text": "Where is my order?"}]}
_MESSAGE = {
    "id": "msg_1c9e",
    "role": "user",
    "createdAt": _AT,
    "threadId": "thr_7f3a",
    "resourceId": "shop/customer-512",
    "type": "text",
    "content": _CONTENT,
    "seq": 1,
    "version": 1,
}
_SAVED = {"id": "msg_1c9e", "seq": 1, "version": 1}
_VERSION = {
    "version": 1,
    "byte_count": 88,
    "written_by": "shop backend",
    "reason": "",
    "rule": "",
    "run_id": "",
    "archived_at": _AT,
}
_AGENT = {
    "id": "support",
    "name": "Support",
    "model": "anthropic/claude-sonnet-4-5",
    "fallback_models": ["openai/gpt-4o"],
    "capture": "full",
    "instructions": "Answer in one sentence.",
    "tools": [],
    "settings": {"max_tokens": 1000},
    "input_processors": [{"id": "message-history"}, {"id": "provider-history-compat"}],
    "output_processors": [{"id": "message-history"}],
    "error_processors": [],
    "max_steps": 5,
    "max_processor_retries": None,
    "model_max_retries": 0,
    "created_at": _AT,
    "updated_at": _AT,
    "worst_case": "One request can become up to 11 provider calls.",
}
_PROVIDER = {
    "id": "vllm",
    "title": "vLLM",
    "protocol": "openai-chat",
    "base_url": "https://llm.example.com/v1",
    "key_ref": "env:VLLM_API_KEY",
    "has_key": True,
    "headers": ["x-team"],
    "is_own": True,
}
_SWITCH = {
    "rule": "anthropic-tool-id-charset",
    "scope": "provider",
    "scope_id": "anthropic",
    "state": "report",
    "changed_by": "shop backend",
    "changed_at": _AT,
}
_RULE = {
    "id": "anthropic-tool-id-charset",
    "family": "anthropic-tool-id-format",
    "provider": "anthropic",
    "title": "Tool-call ids that Anthropic takes",
    "acts": "before the call",
    "confidence": "documented",
    "why": "Anthropic takes letters, digits, _ and - only.",
    "default": "on",
    "state": "on",
    "switches": [_SWITCH],
}
_RUN = {
    "id": "run_51d0",
    "thread_id": "thr_7f3a",
    "agent_id": "support",
    "agent_name": "Support",
    "resource_id": "shop/customer-512",
    "started_by": "shop backend",
    "provider": "anthropic",
    "model_id": "claude-sonnet-4-5",
    "status": "succeeded",
    "finish_reason": "stop",
    "usage": {"input_tokens": 40, "output_tokens": 12},
    "error_class": "",
    "error_message": "",
    "attempt_count": 1,
    "created_at": _AT,
    "finished_at": _AT,
}
_ATTEMPT = {
    "number": 1,
    "provider": "anthropic",
    "protocol": "anthropic-messages",
    "model_id": "claude-sonnet-4-5",
    "url": "https://api.anthropic.com/v1/messages",
    "request": {
        "headers": {},
        "body": {"model": "claude-sonnet-4-5"},
        "size_bytes": 29,
        "sha256": "5d41…",
        "problem": "",
    },
    "changes": [],
    "findings": [],
    "status": 200,
    "response": {"headers": {}, "body": {"id": "msg_01"}, "size_bytes": 15},
    "provider_request_id": "req_011C",
    "error_class": "",
    "error_message": "",
    "decision": "answered",
    "reason": "",
    "asked_by": "",
    "matched": "",
    "delay_wanted_ms": None,
    "delay_granted_ms": None,
    "slept_ms": None,
    "usage": {"input_tokens": 40, "output_tokens": 12},
    "started_at": _AT,
    "finished_at": _AT,
}
_CHANGE = {
    "number": 1,
    "rule": "anthropic-tool-id-charset",
    "family": "anthropic-tool-id-format",
    "severity": "breaks",
    "stored": "/messages/1/content/parts/0",
    "sent": "/messages/1/content/0/id",
    "message_id": "msg_2d4f",
    "before": "functions.lookup:0",
    "after": "functions_lookup_0",
    "reason": "Anthropic takes letters, digits, _ and - only.",
    "loss": "same",
}
_PREVIEW = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
    "protocol": "anthropic-messages",
    "prompt": [{"role": "user", "content": [{"type": "text", "text": "Where is my order?"}]}],
    "request": {
        "method": "POST",
        "url": "https://api.anthropic.com/v1/messages",
        "headers": {"content-type": "application/json"},
        "body": {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": []},
        "size_bytes": 66,
    },
    "changes": [_CHANGE],
    "findings": [],
}
_TURN = {"thread_id": "thr_7f3a", "resource_id": "shop/customer-512", "messages": "Where is my order?"}
_REPORTED = {"run_id": "run_51d0", "status": "", "retry": False, "delay_ms": 0.0, "reason": "", "attempt": 1}
_KEY = {
    "id": 7,
    "name": "shop backend",
    "prefix": "ca_Ab3dE",
    "kind": "key",
    "scopes": ["read", "run", "write"],
    "resource_id": "",
    "state": "active",
    "maker_id": None,
    "created_at": _AT,
    "expires_at": None,
    "last_used_at": _AT,
    "revoked_at": None,
}
_TOKEN = {**_KEY, "id": 8, "name": "shop backend, for shop/customer-512", "kind": "token", "maker_id": 7}
_TOKEN |= {"resource_id": "shop/customer-512", "expires_at": "2026-03-01T10:00:00Z", "last_used_at": None}
_EVENTS = 'id: 1\nevent: started\ndata: {"run_id":"run_51d0","thread_id":"thr_7f3a"}\n\n'


def _page(item: Any) -> dict[str, Any]:
    return {"items": [item], "next_cursor": None}


EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "list_threads": {"answer": _page(_THREAD)},
    "create_thread": {
        "body": {"resource_id": "shop/customer-512", "title": "A refund", "metadata": {"channel": "web"}},
        "answer": _THREAD,
    },
    "read_thread": {"answer": _THREAD},
    "change_thread": {"body": {"title": "A refund"}, "answer": _THREAD},
    "delete_thread": {},
    "clone_thread": {
        "body": {"title": "Another try", "up_to": "msg_1c9e"},
        "answer": {**_THREAD, "id": "thr_9b20", "metadata": {"channel": "web", "cloned_from": "thr_7f3a"}},
    },
    "list_messages": {"answer": _page(_MESSAGE)},
    "add_messages": {
        "body": {"messages": [{"role": "user", "content": "Where is my order?"}]},
        "answer": {"items": [_SAVED]},
    },
    "read_message": {"answer": _MESSAGE},
    "delete_message": {},
    "list_versions": {"answer": _page(_VERSION)},
    "revert_message": {"body": {"version": 1}, "answer": {**_SAVED, "version": 3}},
    "list_agents": {"answer": _page(_AGENT)},
    "create_agent": {
        "body": {
            "id": "support",
            "name": "Support",
            "model": "anthropic/claude-sonnet-4-5",
            "instructions": "Answer in one sentence.",
            "settings": {"max_tokens": 1000},
        },
        "answer": _AGENT,
    },
    "read_agent": {"answer": _AGENT},
    "change_agent": {"body": {"model": "anthropic/claude-sonnet-4-5"}, "answer": _AGENT},
    "delete_agent": {},
    "generate": {
        "body": _TURN,
        "answer": {
            "run_id": "run_51d0",
            "thread_id": "thr_7f3a",
            "status": "succeeded",
            "text": "It leaves today.",
            "finish_reason": "stop",
            "tool_calls": [],
            "usage": {"input_tokens": 40, "output_tokens": 12},
            "attempt_count": 1,
            "message_ids": ["msg_1c9e", "msg_2d4f"],
        },
        "answer_202": {"run_id": "run_51d0", "thread_id": "thr_7f3a", "status": "queued"},
    },
    "prepare": {
        "body": _TURN,
        "answer": {"run_id": "run_51d0", "thread_id": "thr_7f3a", "prepared": _PREVIEW},
    },
    "stream": {"body": _TURN, "answer": _EVENTS},
    "read_events": {"answer": _EVENTS},
    "list_providers": {"answer": _page(_PROVIDER)},
    "create_provider": {
        "body": {
            "id": "vllm",
            "base_url": "https://llm.example.com/v1",
            "key_ref": "env:VLLM_API_KEY",
            "headers": {"x-team": "shop"},
        },
        "answer": _PROVIDER,
    },
    "read_provider": {"answer": _PROVIDER},
    "change_provider": {"body": {"base_url": "https://llm.example.com/v1"}, "answer": _PROVIDER},
    "delete_provider": {},
    "list_rules": {"answer": _page(_RULE)},
    "change_rule": {"body": {"state": "report", "provider": "anthropic"}, "answer": {"items": [_RULE]}},
    "list_runs": {"answer": _page(_RUN)},
    "read_bundle": {
        "answer": {
            "format": "compat-admin-run",
            "version": 1,
            "made_at": _AT,
            "run": {"id": "run_51d0", "thread_id": "thr_7f3a", "provider": "anthropic", "status": "succeeded"},
            "agent": {"model": "anthropic/claude-sonnet-4-5", "max_steps": 5},
            "rules": {"anthropic": {}},
            "messages": [_MESSAGE],
            "attempts": [{"number": 1, "decision": "answered"}],
            "missing": [],
        }
    },
    "read_run": {
        "answer": {
            **_RUN,
            "input": [_MESSAGE],
            "settings": {},
            "message_ids": ["msg_1c9e"],
            "removed_at": None,
            "rules_hash": "9f86…",
            "attempts": [_ATTEMPT],
        }
    },
    "cancel": {"answer": {"run_id": "run_51d0", "status": "cancelled"}},
    "report_reply": {
        "body": {"reply": {"id": "msg_01", "content": [{"type": "text", "text": "It leaves today."}]}},
        "answer": {**_REPORTED, "status": "succeeded", "reason": "answered"},
    },
    "report_error": {
        "body": {"status": 429, "headers": {"retry-after": "8"}, "body": {"error": {"message": "Too many requests"}}},
        "answer": {**_REPORTED, "status": "prepared", "retry": True, "delay_ms": 8000.0, "attempt": 2},
    },
    "preview_request": {
        "body": {"provider": "anthropic", "model": "claude-sonnet-4-5", "thread_id": "thr_7f3a"},
        "answer": _PREVIEW,
    },
    "explain": {
        "body": {
            "provider": "anthropic",
            "status": 429,
            "headers": {"retry-after": "8"},
            "body": {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests"}},
        },
        "answer": {
            "error": {
                "class": "rate-limit",
                "message": "Too many requests",
                "code": "rate_limit_error",
                "status": 429,
                "request_id": "",
                "is_retryable": True,
                "retry_after_ms": 8000.0,
            },
            "rules": [],
            "decision": {
                "retry": False,
                "delay_ms": None,
                "wanted_ms": None,
                "reason": "No processor asked for a retry.",
                "asked_by": "",
                "matched": "",
            },
            "changes_before": [],
            "changes": [],
            "findings": [],
        },
    },
    "list_keys": {"answer": _page(_KEY)},
    "create_key": {
        "body": {"name": "shop backend", "scopes": ["read", "write", "run"]},
        "answer": {**_KEY, "key": "ca_Ab3dE…"},
    },
    "revoke_key": {},
    "create_token": {
        "body": {"resource_id": "shop/customer-512", "scopes": ["read", "run"], "expires_in_s": 900},
        "answer": {**_TOKEN, "key": "ca_Xy9zQ…"},
    },
}
REFUSED: Mapping[str, Any] = {
    "type": "about:blank",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "expected 1 to 200",
    "code": "invalid_input",
    "request_id": "0f9c2b1e4d7a48a5",
    "errors": [{"field": "limit", "message": "expected 1 to 200"}],
}
