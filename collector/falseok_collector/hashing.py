"""Digests of block lists and keyed hashes of token ids.

Token ids never leave the process: what leaves is an HMAC under the fleet's salt, comparable only between
processes that share the salt (`salt_id` says which).
"""

import hashlib
import hmac
import secrets
from array import array
from collections.abc import Sequence

import msgspec


def block_digest(groups: Sequence[Sequence[int]]) -> str:
    """Digest of logical block ids per group, in order: SHA-256 over their compact JSON, 32 hex digits.

    The same ids give the same digest on both sides, whether they arrive as tuples or as lists.
    """
    plain = [list(group) for group in groups]
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()[:32]


class KeyedHash:
    """HMAC-SHA-256 of token ids under a salt; without a salt, a random one that no other process shares."""

    def __init__(self, salt: str = "") -> None:
        self._key = salt.encode("utf-8", "surrogateescape") if salt else secrets.token_bytes(32)
        self.salt_id = hashlib.sha256(b"falseok salt id\0" + self._key).hexdigest()[:12]

    def of_tokens(self, token_ids: Sequence[int], length: int) -> str:
        """Hash of the first `length` token ids, 32 hex digits; empty when there are fewer.

        Fewer means that the engine changed the list after the hook saw it: then nothing can be said.
        """
        if length <= 0 or len(token_ids) < length:
            return ""
        packed = array("q", token_ids[:length]).tobytes()
        return hmac.new(self._key, packed, hashlib.sha256).hexdigest()[:32]
