"""Services against real pretend providers: connections point at a running sandbox."""

from collections.abc import Iterator
from typing import Any

import pytest

import memory.sandbox
from memory.sandbox import Sandbox

CONNECTIONS = {"anthropic": "anthropic-messages", "openai": "openai-chat", "cerebras": "openai-chat"}


@pytest.fixture(scope="session")
def running_sandbox() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running_sandbox: Sandbox, settings: Any, db: None) -> Iterator[Sandbox]:
    """The sandbox without scripts or memories, and a connection to each provider it plays."""
    from memory.models import Provider  # models can be loaded only once Django is set up, after this module

    running_sandbox.clear()
    settings.SANDBOX_URL = running_sandbox.url
    for provider, protocol in CONNECTIONS.items():
        Provider.objects.create(id=provider, protocol=protocol, base_url=f"sandbox:{provider}")
    yield running_sandbox
    running_sandbox.clear()
