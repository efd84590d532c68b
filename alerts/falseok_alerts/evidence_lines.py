"""The facts of an incident as short lines: what happened, and the events that show it. Plain text, no layout."""

from falseok_alerts.facts import HandshakeFacts, IncidentFacts, ReceiveFacts

SHORT_HASH_CHARACTERS = 8
"""As vLLM's own readers compare hashes by eye; the whole hash stays in the JSON."""

_HAPPENED = {
    "corrupt": "answered with corrupted output",
    "unprotected": "read KV blocks outside their lease",
    "failed_closed": "ended in an error because their KV transfer failed",
    "stalled": "hang while waiting for KV from prefill",
    "recovered": "recomputed by decode after their KV transfer failed",
    "not_disaggregated": "computed by decode although prefill had offered the KV",
}


def headline(facts: IncidentFacts) -> str:
    """What happened to how many requests, as one line; the HTTP status only as far as it was seen."""
    happened = _HAPPENED.get(facts.verdict, f"judged {facts.verdict}")
    if facts.verdict == "corrupt" and facts.answered_200 == facts.affected:
        happened = "answered 200 with corrupted output"
    elif facts.verdict == "corrupt" and facts.answered_200:
        happened += f", {facts.answered_200:,} of them with 200"
    return f"{counted(facts.affected, 'request')} {happened}"


def evidence_lines(facts: IncidentFacts) -> list[str]:
    """What the events show, most telling first; a line only where its facts are known."""
    lines = [
        _handshake_line(facts.handshake),
        _failure_line(facts),
        _resume_line(facts.receive),
        _policy_line(facts),
    ]
    return [line for line in lines if line]


def counted(number: int, noun: str) -> str:
    """`1 request`, `32 requests`, `10,000 requests`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short_hash(value: str) -> str:
    """The first characters of a hash, for reading."""
    return value[:SHORT_HASH_CHARACTERS]


def _handshake_line(handshake: HandshakeFacts) -> str:
    if not handshake.attempts:
        return ""
    if not handshake.failed:
        return f"handshake succeeded {handshake.attempts}/{handshake.attempts}"
    line = f"handshake failed {handshake.failed}/{handshake.attempts}"
    if handshake.local_hash and handshake.remote_hash and handshake.local_hash != handshake.remote_hash:
        return f"{line} (hash {short_hash(handshake.remote_hash)} ≠ {short_hash(handshake.local_hash)})"
    return f"{line} ({', '.join(handshake.failure_types)})" if handshake.failure_types else line


def _failure_line(facts: IncidentFacts) -> str:
    if not facts.receive.failed_requests:
        return ""
    kinds = ", ".join(facts.receive.failure_types)
    return f"receive failed for {facts.receive.failed_requests}/{facts.affected} requests ({kinds})"


def _resume_line(receive: ReceiveFacts) -> str:
    least, most = receive.expected_tokens_least, receive.expected_tokens_most
    if not most or receive.received_bytes is None:
        return ""
    verb = "resumed with" if receive.resumed_as_received else "stopped at"
    expected = f"{most}" if least in (None, most) else f"{least} to {most}"
    received = (
        "0 received tokens" if receive.received_bytes == 0 else f"{receive.received_bytes:,} received bytes"
    )
    return f"decode {verb} {expected} expected, {received}"


def _policy_line(facts: IncidentFacts) -> str:
    policy = facts.receive.policy
    if not policy:
        return ""
    honoured = facts.verdict == ("failed_closed" if policy == "fail" else "recovered")
    return f'policy "{policy}" honoured' if honoured else f'policy "{policy}" not honoured'
