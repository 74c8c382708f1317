"""A token endpoint that checks the signed claims of a service account, and the account's key file."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

EMAIL = "caller@project.iam.gserviceaccount.test"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def decoded(piece: str) -> bytes:
    return base64.urlsafe_b64decode(piece + "=" * (-len(piece) % 4))


class TokenEndpoint:
    """Gives a numbered token for claims that KEY signed. `lifetime_s` is how long it says that it lasts."""

    def __init__(self) -> None:
        self.count = 0
        self.lifetime_s = 3600
        self.fails_with: tuple[int, dict[str, Any]] | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_asked = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                endpoint.count += 1
                endpoint.was_asked.set()
                assert endpoint.may_answer.wait(10)
                status, said = endpoint.answer(form)
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if self.fails_with:
            return self.fails_with
        if form.get("grant_type") != ["urn:ietf:params:oauth:grant-type:jwt-bearer"]:
            return 400, {"error": "unsupported_grant_type"}
        head, claims, signature = form["assertion"][0].split(".")
        try:
            KEY.public_key().verify(
                decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except InvalidSignature:
            return 400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        said, now = json.loads(decoded(claims)), time.time()
        if (said["iss"], said["scope"]) != (EMAIL, SCOPE) or not said["iat"] - 60 <= now < said["exp"]:
            return 400, {"error": "invalid_grant", "error_description": "Invalid claims."}
        return 200, {"access_token": self.token(self.count), "expires_in": self.lifetime_s, "token_type": "Bearer"}

    @staticmethod
    def token(number: int) -> str:
        return f"ya29.token-number-{number}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def account(endpoint: TokenEndpoint, key: rsa.RSAPrivateKey = KEY) -> str:
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "1",
            "private_key": pem(key),
            "client_email": EMAIL,
            "token_uri": endpoint.url,
        }
    )
