"""Hosts that speak OpenAI's chat format and need no code of their own: one file each, and its line in this list."""

from __future__ import annotations

from importlib import import_module

from memory.hosts.host import LIST_ROLES, Host

__all__ = ["HOSTS", "LIST_ROLES", "Host"]

_LISTED = (
    "deepinfra",
)  # fmt: skip

HOSTS: tuple[Host, ...] = tuple(import_module(f"memory.hosts.{name}").HOST for name in _LISTED)
