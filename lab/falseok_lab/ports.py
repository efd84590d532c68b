"""The loopback ports of a pair: found free, or checked to be free.

They are looked for below the range from which the system hands out ports to outgoing connections, so that none
of the many connections inside an engine takes one between the look and the start.
"""

import socket
import zlib
from collections.abc import Iterable
from contextlib import suppress

import msgspec
import psutil

from falseok_lab.errors import LabError

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 20_000, 31_990


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Every port of a pair. A side channel is the base port: data-parallel rank n listens on base + n."""

    router: int
    prefill: int
    decode: int
    prefill_side_channel: int
    decode_side_channel: int


def free_ports(key: str, taken: Iterable[int] = (), ranks: int = 1) -> Ports:
    """Free ports for a lab, the same for the same `key` as long as nobody else took them.

    The key should tell labs of several data directories apart. `taken` are ports of other labs that may be about to
    use them. After each side channel the ports of `ranks` data-parallel ranks are free.

    Raises:
        LabError: there are not enough free ports.
    """
    start = zlib.crc32(key.encode()) % (_LAST - _FIRST)
    avoided = set(taken)
    chosen: dict[str, int] = {}
    wanted = list(Ports.__struct_fields__)
    run: list[int] = []
    for offset in range(_LAST - _FIRST):
        port = _FIRST + (start + offset) % (_LAST - _FIRST)
        if port in avoided or not is_free(port) or (run and port != run[-1] + 1):
            run = []
            continue
        run.append(port)
        if len(run) == (ranks if wanted[0].endswith("side_channel") else 1):
            chosen[wanted.pop(0)] = run[0]
            run = []
        if not wanted:
            return Ports(**chosen)
    raise LabError(f"There are not enough free ports between {_FIRST} and {_LAST} on this machine.")


def require_free(ports: Ports) -> None:
    """Check ports that were asked for.

    Raises:
        LabError: one is taken; the message names it and, where it may be known, the process that holds it.
    """
    for use, port in msgspec.structs.asdict(ports).items():
        if not is_free(port):
            what = use.replace("_", " ")
            raise LabError(
                f"Port {port} (for the {what}) is taken by {holder_of(port)}. "
                "End that process, or let the lab choose its ports."
            )


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def holder_of(port: int) -> str:
    """Who listens on a port, in words."""
    with suppress(psutil.Error):
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.pid is not None
            if listens and getattr(connection.laddr, "port", None) == port:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return "another process"
