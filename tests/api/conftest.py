"""Callers with keys of different kinds, and an agent whose provider is the sandbox.

Rows are imported inside the fixtures: this module is loaded before Django is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import memory.sandbox
from memory.sandbox import Sandbox
from tests.api.callers import Caller

if TYPE_CHECKING:
    from memory.models import Agent


@pytest.fixture
def caller(db: None) -> Caller:
    """May do everything for every resource."""
    from tests import make

    return Caller(make.make_key())


@pytest.fixture
def outsider(db: None) -> Caller:
    """May do everything, for a resource that owns nothing."""
    from tests import make

    return Caller(make.make_key("somebody-else"))


@pytest.fixture
def nobody() -> Caller:
    return Caller(None)


@pytest.fixture(scope="package")
def running() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running: Sandbox, db: None, settings: Any) -> Iterator[Sandbox]:
    """Where Anthropic's connection points."""
    from memory.models import Provider

    running.clear()
    settings.SANDBOX_URL = running.url
    Provider.objects.create(id="anthropic", protocol="anthropic-messages", base_url="sandbox:anthropic")
    yield running
    running.clear()


@pytest.fixture
def agent(db: None) -> "Agent":
    """An agent with the default processors and no tools."""
    from memory.services import agents
    from tests import make

    values = {"id": "plain", "name": "Plain", "model": "anthropic/claude-sonnet-4-5", "settings": {"max_tokens": 100}}
    return agents.create_agent(make.caller(), values)
