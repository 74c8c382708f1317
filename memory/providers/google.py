"""Access tokens for Google Vertex AI, fetched by google-auth (extra `vertex`).

Credentials are those google-auth finds for itself (application default credentials), or a service account's JSON.
A token is kept until shortly before it expires; calls that need a new one at the same time wait for the same fetch.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import msgspec

from memory.errors import ProviderError
from memory.providers.signers import Fetch, Fetched, Signed, misconfigured, missing_extra

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_SHOWN = 300


class GoogleSigner:
    """Shows an access token. `service_account` is the text of a key file; without it the default credentials are used.

    `where` names the place in errors.
    """

    def __init__(self, service_account: str | None = None, *, where: str = "google:") -> None:
        self._text, self._where = service_account, where
        self._credentials: Any = None
        self._flight: Future[str] | None = None
        self._lock = threading.Lock()

    def sign(self, url: str, headers: Mapping[str, str], body: bytes, fetch: Fetch) -> Signed:
        try:
            from google.auth import exceptions
        except ImportError as error:
            raise missing_extra("calling Vertex AI with Google credentials", "vertex") from error
        failed: Exception | None = None
        try:
            token = self._token(fetch)
        except exceptions.GoogleAuthError as error:
            failed = error
        if failed is not None:
            # The way to the endpoint failed: that is our own client's error, with its own cause.
            if isinstance(failed.__cause__, ProviderError):
                raise failed.__cause__
            raise self._refusal(failed, exceptions) from failed
        own: dict[str, str] = {}
        self._credentials.apply(own, token=token)
        return Signed({name.lower(): value for name, value in own.items()}, token)

    def refused(self, signed: Signed) -> None:
        with self._lock:
            if self._credentials is not None and self._credentials.token == signed.secret:
                self._credentials.token = None

    def _token(self, fetch: Fetch) -> str:
        """A token that is good for a while. One thread fetches; the others wait for it and share its failure."""
        with self._lock:
            if self._credentials is not None and self._credentials.valid:
                held: str = self._credentials.token
                return held
            flight, is_mine = self._flight, self._flight is None
            if flight is None:
                flight = self._flight = Future()
        if is_mine:
            try:
                transport = _transport(fetch)
                if self._credentials is None:
                    self._credentials = self._loaded(transport)
                self._credentials.refresh(transport)
            except BaseException as error:  # noqa: BLE001 - raised by `result`, here and in the threads that wait
                flight.set_exception(error)
            else:
                flight.set_result(self._credentials.token)
            finally:
                with self._lock:
                    self._flight = None
        return flight.result()

    def _loaded(self, transport: Any) -> Any:
        import google.auth
        from google.oauth2 import service_account

        of_account: Any = service_account.Credentials
        if self._text is None:
            found, _ = google.auth.default(scopes=_SCOPES, request=transport)
            return found
        try:
            info = msgspec.json.decode(self._text)
            return of_account.from_service_account_info(info, scopes=_SCOPES)
        except (ValueError, TypeError, AttributeError) as error:
            # The error's own text may quote the key.
            raise misconfigured(
                f"{self._where} holds no service account key that can be read", code="no_credentials"
            ) from error

    def _refusal(self, error: Any, exceptions: Any) -> ProviderError:
        said = str(error.args[0] if error.args else error)[:_SHOWN]
        if isinstance(error, exceptions.DefaultCredentialsError):
            return misconfigured(f"no Google credentials were found for {self._where}", code="no_credentials")
        is_retryable = bool(getattr(error, "retryable", False))
        return ProviderError(
            f"Google gave no access token for {self._where}: {said}",
            error_class="transient" if is_retryable else "authentication",
            is_retryable=is_retryable,
            error_code="no_token",
        )


def _transport(fetch: Fetch) -> Any:
    """google-auth's way to make a request, over our own client: with its proxy, its certificates and its limits."""
    from google.auth import exceptions

    def request(
        url: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> Fetched:
        sent = body.encode() if isinstance(body, str) else body
        try:
            return fetch(method, url, dict(headers or {}), sent, timeout)
        except ProviderError as error:
            failure: Exception = exceptions.TransportError(str(error))  # type: ignore[no-untyped-call]
            raise failure from error

    return request
