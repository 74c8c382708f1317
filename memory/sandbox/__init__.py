"""Pretend providers that speak real HTTP on a port of their own: refusals, answers, scripted failures.

Each provider has the paths it has at the vendor, under its id: `{url}/anthropic/v1/messages`,
`{url}/groq/openai/v1/chat/completions`, `{url}/cohere/v2/chat`. Nothing leaves the machine, any key will do.
The checks are written from what the vendors document and from reported errors, apart from the profiles and passes:
this package imports nothing else of the project, so that each can be tried against the other. Only a host that is known
by its facts alone (`memory.hosts`) has them written down once, for both.
"""

from memory.sandbox.server import Sandbox, start

__all__ = ["Sandbox", "start"]
