"""Lines that nobody should send: every one has to become a dead letter, whatever ClickHouse's own parser would make of it."""

import random

GOOD = (
    b'{"v":1,"id":"%(boot)s-%(seq)d","ts":1796000000000000,"mono":5,"boot":"%(boot)s","seq":%(seq)d,"name":"sched.preempt",'
    b'"origin":"hook","engine_id":"fuzz","request_id":"r-1","attrs":{"output_tokens":1}}'
)


def good_line(boot: str, seq: int) -> bytes:
    """An event that is well-formed in every way."""
    return GOOD % {b"boot": boot.encode(), b"seq": seq}


def hostile_lines(dice: random.Random, number: int) -> list[bytes]:
    """So many bad lines, each different, of every kind in turn."""
    return [_KINDS[at % len(_KINDS)](dice, at) for at in range(number)]


def _replaced(old: bytes, new: bytes, at: int) -> bytes:
    line = good_line(f"bad{at}", at + 1)
    assert old in line
    return line.replace(old, new)


_KINDS = (
    # What ClickHouse's parser takes: an empty object, missing ids, wrapped integers, nulls, text for numbers, bad UTF-8.
    lambda dice, at: b"{}" + b" " * at,
    lambda dice, at: b'{"v":1,"nothing":%d}' % at,
    lambda dice, at: _replaced(b'"seq":', b'"seq":9223372036854775808', at).replace(
        b"80%d," % (at + 1), b"8,"
    ),
    lambda dice, at: _replaced(b'"ts":1796000000000000', b'"ts":-1', at),
    lambda dice, at: _replaced(b'"ts":1796000000000000', b'"ts":null', at),
    lambda dice, at: _replaced(b'"ts":1796000000000000', b'"ts":"1796000000000000"', at),
    lambda dice, at: _replaced(b'"mono":5', b'"mono":5.5', at),
    lambda dice, at: _replaced(b'"r-1"', b'"r-\xff\xfe"', at),
    lambda dice, at: _replaced(b'"r-1"', b'"r-\x00"', at),
    lambda dice, at: _replaced(b'"attrs":{', b'"attrs":[{', at)[:-1] + b"]}",
    lambda dice, at: _replaced(b'{"output_tokens":1}', b'"{}"', at),
    # What no parser takes.
    lambda dice, at: good_line(f"cut{at}", at + 1)[: dice.randint(1, 150)],
    lambda dice, at: good_line(f"two{at}", at + 1) * 2,
    lambda dice, at: b"[" * (2_000 + at),
    lambda dice, at: b'{"v":1,"a":' * 1_500 + b"1" + b"}" * (1_500 + at % 7),
    lambda dice, at: _noise(dice, 40 + at % 200),
    lambda dice, at: b"<script>alert(%d)</script>" % at,
    lambda dice, at: b"'; DROP TABLE events; -- %d" % at,
    # What contradicts itself, or comes from the future.
    lambda dice, at: _replaced(b'"v":1', b'"v":99', at),
    lambda dice, at: _replaced(b'"v":1', b'"v":0', at),
    lambda dice, at: _replaced(b'"id":"bad', b'"id":"other', at),
    lambda dice, at: _replaced(b'"name":"sched.preempt"', b'"name":"Not A Name"', at),
    lambda dice, at: _replaced(b'"origin":"hook"', b'"origin":"rumour"', at),
    lambda dice, at: _replaced(b'"engine_id":"fuzz"', b'"engine_id":"%s"' % (b"x" * 300), at),
)


def _noise(dice: random.Random, length: int) -> bytes:
    """Bytes without a line break, and not blank."""
    return b"\x01" + bytes(dice.choice(range(32, 256)) for _ in range(length)).replace(b"\n", b"n")
