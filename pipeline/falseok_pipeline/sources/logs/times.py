"""When a line was written. vLLM's stamps have neither year nor zone; this module finds both."""

import re
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from falseok_pipeline.sources.logs.wrapping import micros_of

_STAMP = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_DATED = re.compile(rb"(?<![\d-])(20\d\d)-(?:0[1-9]|1[0-2])-[0-3]\d[T ][0-2]\d:[0-5]\d:[0-5]\d")
_HALF_YEAR_MICROS = 183 * 86_400 * 1_000_000
_DAY_SECONDS = 86_400


class Clock:
    """Tells the time of line after line of one log, in order."""

    def __init__(self, zone: tzinfo, year: int) -> None:
        self.zone = zone
        self.year = year
        self.now_micros = 0
        """Time of the last line that had one; lines without a stamp are as old as that."""

    def read(self, stamp: str, outer_micros: int | None) -> int:
        """Time of a line by its own stamp, or by the runtime's where there is one, which is exact."""
        if outer_micros is not None:
            self.now_micros = outer_micros
            self.year = datetime.fromtimestamp(outer_micros / 1e6, self.zone).year
        elif stamp and (micros := self._micros(stamp)) is not None:
            self.now_micros = micros
        return self.now_micros

    def _micros(self, stamp: str) -> int | None:
        micros = _micros(stamp, self.year, self.zone)
        if micros is None:
            return None
        if self.now_micros - micros > _HALF_YEAR_MICROS and not stamp[:4].isdigit():
            # December, then January: the year has turned.
            self.year += 1
            return _micros(stamp, self.year, self.zone)
        return micros


@lru_cache(maxsize=1024)
def _micros(stamp: str, year: int, zone: tzinfo) -> int | None:
    found = _STAMP.match(stamp)
    if found is None:
        return None
    own_year, *parts = found.groups()
    try:
        month, day, hour, minute, second = (int(part) for part in parts)
        moment = datetime(int(own_year or year), month, day, hour, minute, second, tzinfo=zone)
        return round(moment.timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return None


def year_of(head: bytes, modified_seconds: float, zone: tzinfo) -> tuple[int, str]:
    """The year in which a log begins, and how that is known: from a full date in its head, else from when the file
    was last written to (the latest year in which its first stamp is not in the future of that).
    """
    dated = _DATED.search(head)
    if dated is not None:
        return int(dated.group(1)), "a full date in the log"
    written = datetime.fromtimestamp(modified_seconds, UTC)
    first = _first_stamp(head)
    for year in range(written.year, written.year - 8, -1):
        micros = _micros(first, year, zone) if first else None
        if micros is None and first:
            continue  # 29 February
        if micros is None or micros / 1e6 <= modified_seconds + _DAY_SECONDS:
            return year, "the file's modification time"
    return written.year, "the file's modification time"


def first_micros(head: bytes, year: int, zone: tzinfo) -> int:
    """Time of the first line that has one; 0 where none has. Orders the pieces of a rotated log."""
    iso = re.search(rb"(?m)^\S{0,80}?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))", head)
    if iso is not None and (micros := micros_of(iso.group(1).decode())) is not None:
        return micros
    stamp = _first_stamp(head)
    return (_micros(stamp, year, zone) or 0) if stamp else 0


def _first_stamp(head: bytes) -> str:
    found = re.search(
        rb"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\S{0,12} \S{0,6}(\d\d-\d\d \d\d:\d\d:\d\d)", head
    )
    return found.group(1).decode() if found else ""
