"""Stored messages, prompts and the way between them. Pure data: imports nothing else of ours."""
