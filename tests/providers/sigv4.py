"""A server that checks AWS Signature Version 4 by itself, and hands what is signed rightly on to the sandbox.

Written from AWS' documentation of the signing process, without botocore, which is what makes the signatures.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, urlsplit

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([a-z0-9-]+)/([a-z-]+)/aws4_request,"
    r" SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)
_MUST_BE_SIGNED = {"host", "x-amz-date", "content-type"}


class Gate:
    """Running at `url`, which may also be used as a proxy. `keys` are secret and session token by key id."""

    def __init__(self, sandbox_url: str, keys: dict[str, tuple[str, str]]) -> None:
        self.scopes: list[tuple[str, str]] = []
        """Region and service of what was let through."""
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                try:
                    gate.scopes.append(verify(keys, self.command, self.path, dict(self.headers.items()), body))
                except Refusal as refusal:
                    said = json.dumps({"message": str(refusal)}).encode()
                    self._answer(403, {"x-amzn-errortype": "InvalidSignatureException"}, said)
                    return
                onward = http.client.HTTPConnection(urlsplit(sandbox_url).netloc, timeout=10)
                path = urlsplit(self.path).path
                onward.request("POST", f"/bedrock{path}", body, {"authorization": self.headers["authorization"]})
                answer = onward.getresponse()
                self._answer(answer.status, {"content-type": answer.headers["content-type"]}, answer.read())
                onward.close()

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Refusal(Exception):
    """Why a request is not what its signature says."""


def verify(
    keys: dict[str, tuple[str, str]], method: str, target: str, headers: dict[str, str], body: bytes
) -> tuple[str, str]:
    """Region and service of a request that is signed rightly. Raises Refusal."""
    sent = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    found = _AUTHORIZATION.fullmatch(sent.get("authorization", ""))
    if not found:
        raise Refusal("no signature")
    key_id, day, region, service, names, signature = found.groups()
    secret, token = keys.get(key_id, ("", ""))
    if not secret or sent.get("x-amz-security-token", "") != token:
        raise Refusal("The security token included in the request is invalid.")
    stamp = sent.get("x-amz-date", "")
    if not stamp.startswith(day):
        raise Refusal("The date is not that of the scope.")
    if abs(datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) - datetime.now(UTC)) > timedelta(minutes=15):
        raise Refusal("Signature expired")
    signed = names.split(";")
    needed = _MUST_BE_SIGNED | {name for name in sent if name.startswith("x-amz-")}
    if signed != sorted(signed) or not needed <= set(signed):
        raise Refusal("Not everything that has to be is signed.")
    url = urlsplit(target)
    canonical = "\n".join(
        (
            method,
            quote(url.path, safe="/-_.~"),  # what comes encoded is encoded once more
            "&".join(sorted(url.query.split("&"))) if url.query else "",
            *(f"{name}:{sent[name]}" for name in signed),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for step in (day, region, service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    if not hmac.compare_digest(hmac.new(key, text.encode(), "sha256").hexdigest(), signature):
        raise Refusal("The request signature we calculated does not match the signature you provided.")
    return region, service
