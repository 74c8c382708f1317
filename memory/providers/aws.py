"""Requests to Amazon Bedrock, signed with AWS Signature Version 4 by botocore (extra `bedrock`).

Credentials are those botocore finds for itself (environment, profile, role of the container or machine), or a JSON
object in the form that AWS' own `credential_process` gives:
`{"AccessKeyId", "SecretAccessKey", "SessionToken"?, "Expiration"?}`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
from msgspec import Struct

from memory.providers.signers import Fetch, Signed, misconfigured, missing_extra

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

_HOST = re.compile(
    r"(?:^|\.)(?P<service>bedrock-(?:runtime(?:-fips)?|mantle))\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.[a-z0-9.]+$"
)
# Proxies on the way may change these, and a signature over them would then be void.
_UNSIGNED = frozenset({"accept", "accept-encoding"})


class _ProcessKeys(Struct, rename="pascal"):
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expiration: str | None = None


class AwsSigner:
    """Signs with the credentials of botocore's own chain (`profile` names one), or with those `read` gives as JSON.

    `read` is asked for every request, so that a file which somebody else keeps fresh is never too old. `where` names
    the place in errors. Temporary credentials of the chain are renewed by botocore before they expire.
    """

    def __init__(self, *, profile: str = "", read: Callable[[], str] | None = None, where: str = "aws:") -> None:
        self._profile, self._read, self._where = profile, read, where
        self._session: Any = None
        self._lock = threading.Lock()

    def sign(self, url: str, headers: Mapping[str, str], body: bytes, fetch: Fetch) -> Signed:
        try:
            from botocore.auth import SigV4Auth
            from botocore.awsrequest import AWSRequest
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise missing_extra("signing requests to Amazon Bedrock", "bedrock") from error
        try:
            keys = self._given_keys() if self._read else self._found_keys()
            service, region = self._scope(url)
        except (BotoCoreError, ClientError, OSError, ValueError) as error:
            # The error's own text may quote what a credential process printed.
            raise misconfigured(
                f"AWS credentials of {self._where} could not be had: {type(error).__name__}", code="no_credentials"
            ) from error
        own = {name: value for name, value in headers.items() if name not in _UNSIGNED}
        request = AWSRequest(method="POST", url=url, data=body, headers=own)
        SigV4Auth(keys, service, region).add_auth(request)
        signed = {name.lower(): value for name, value in request.headers.items()}
        return Signed({name: value for name, value in signed.items() if own.get(name) != value}, keys.token or "")

    def refused(self, signed: Signed) -> None:
        """Nothing: each request is signed anew."""

    def _given_keys(self) -> ReadOnlyCredentials:
        from botocore.credentials import ReadOnlyCredentials

        assert self._read is not None
        try:
            given = msgspec.json.decode(self._read(), type=_ProcessKeys)
        except msgspec.DecodeError as error:
            # Where in the value, never the value.
            raise misconfigured(f"{self._where} holds no AWS credentials: {error}", code="no_credentials") from None
        if given.expiration is not None and _has_passed(given.expiration):
            raise misconfigured(f"the AWS credentials of {self._where} have expired", code="expired_credentials")
        return ReadOnlyCredentials(given.access_key_id, given.secret_access_key, given.session_token)

    def _found_keys(self) -> ReadOnlyCredentials:
        credentials = self._opened().get_credentials()
        if credentials is None:
            raise misconfigured(
                f"no AWS credentials were found for {self._where} (environment, profile, role)", code="no_credentials"
            )
        frozen: ReadOnlyCredentials = credentials.get_frozen_credentials()
        return frozen

    def _scope(self, url: str) -> tuple[str, str]:
        """Service and region that a signature is good for: the host says so, else the environment or the profile."""
        found = _HOST.search(httpx.URL(url).host)
        service = "bedrock-mantle" if found and found["service"] == "bedrock-mantle" else "bedrock"
        region = (
            found["region"]
            if found
            else os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
            or self._opened().get_config_variable("region")
        )
        if not region:
            raise misconfigured(
                "the AWS region is unknown: use an address such as https://bedrock-runtime.us-east-1.amazonaws.com,"
                " or set AWS_REGION",
                code="no_region",
            )
        return service, region

    def _opened(self) -> Any:
        from botocore.session import Session

        with self._lock:
            if self._session is None:
                self._session = Session(profile=self._profile or None)
            return self._session


def _has_passed(instant: str) -> bool:
    try:
        at = datetime.fromisoformat(instant)
    except ValueError:
        return False
    return (at if at.tzinfo else at.replace(tzinfo=UTC)) <= datetime.now(UTC)
