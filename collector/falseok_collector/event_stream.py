"""Takes server-sent events apart as their bytes pass by, however they are cut.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html; a lone carriage return as a line end,
which no server of ours uses, is not understood.
"""

MAX_EVENT_BYTES = 1024 * 1024
"""A longer event is passed over."""


class EventStream:
    """Feed it the bytes of a stream in order; it hands out the data of each event once the event is complete."""

    def __init__(self) -> None:
        self.comments = 0
        """Comment lines: servers send them to keep a connection alive."""
        self.events_too_long = 0
        self._rest = bytearray()
        """An unfinished line."""
        self._data: list[bytes] = []
        """Data lines of an unfinished event."""
        self._data_bytes = 0
        self._passing_over_line = False
        self._too_long = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes; the work is linear in the chunk."""
        if not (self._rest or self._data or self._passing_over_line or self._too_long):
            # What vLLM sends: one event a chunk, in one line.
            if chunk.endswith(b"\n\n") and chunk.startswith(b"data:") and chunk.count(b"\n") == 2:
                return [chunk[5:-2].strip()] if len(chunk) <= MAX_EVENT_BYTES else self._passed_over()
            lines = chunk.split(b"\n")
        else:
            lines = chunk.split(b"\n")
            lines[0] = bytes(self._rest) + lines[0] if len(lines) > 1 else lines[0]
            if len(lines) > 1:
                self._rest.clear()
        rest = lines.pop()
        found: list[bytes] = []
        for line in lines:
            if self._passing_over_line:
                self._passing_over_line = False  # the end of a line that was too long
            else:
                self._line(line, found)
        if self._passing_over_line:
            return found
        if len(self._rest) + len(rest) > MAX_EVENT_BYTES:
            self._passing_over_line = self._too_long = True
            self._rest.clear()
        else:
            self._rest += rest
        return found

    def finish(self) -> list[bytes]:
        """The stream has ended: what an event without its last line break held."""
        found: list[bytes] = []
        if not self._passing_over_line:
            self._line(bytes(self._rest), found)
        self._end_event(found)
        self._rest.clear()
        return found

    def _line(self, line: bytes, found: list[bytes]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if not line:
            self._end_event(found)
        elif line.startswith(b"data:"):
            self._data_bytes += len(line)
            if self._data_bytes > MAX_EVENT_BYTES:
                self._too_long = True
                self._data.clear()
            else:
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b":"):
            self.comments += 1

    def _end_event(self, found: list[bytes]) -> None:
        if self._too_long:
            self.events_too_long += 1
        elif self._data:
            found.append(b"\n".join(self._data).strip())
        self._data.clear()
        self._data_bytes = 0
        self._too_long = False

    def _passed_over(self) -> list[bytes]:
        self.events_too_long += 1
        return []
