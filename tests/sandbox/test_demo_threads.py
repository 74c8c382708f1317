"""The demo's threads, which several makers wrote, are taken by every pretend provider once the passes have run."""

from __future__ import annotations

import httpx
import pytest

from tests.sandbox.conftest import HEADERS
from tests.sandbox.demo_threads import TARGETS, request_to, turns

LEAST = 40


@pytest.mark.parametrize(("provider", "protocol"), TARGETS)
def test_demo_threads_go_anywhere(client: httpx.Client, provider: str, protocol: str) -> None:
    count, refused = 0, {}
    for turn in turns():
        encoded = request_to(provider, protocol, turn)
        response = client.post(f"/{provider}/v1{encoded.path}", content=encoded.body, headers=HEADERS[provider])
        count += 1
        if response.status_code != 200:
            refused[turn.id] = response.text

    assert refused == {}
    assert count >= LEAST
