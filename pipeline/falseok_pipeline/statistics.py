"""What the pipeline did since it was started, for people and for rates."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statistics:
    """Counts since `started_at_micros`. A re-delivered event is counted each time: the store keeps it once."""

    started_at_micros: int
    events_stored: int = 0
    dead_letters: int = 0
    blank_lines: int = 0
    batches: int = 0
    bytes_read: int = 0
    lag_bytes: int = 0
    """Bytes in the spools that are not durable in the store yet."""
    lag_messages: int = 0
    """Messages in the topics that are not durable in the store yet, in the partitions of this process."""
    lost_segments: int = 0
    """Segments that vanished before they were read."""
    lost_messages: int = 0
    """Messages that the topics' retention removed before they were read."""
    last_event_micros: int = 0
    """Latest wall clock of an event stored."""
    oldest_delay_seconds: float = 0.0
    """Age of the oldest event of the last batch when it was durable in the store."""
    waiting_for: str = ""
    """Why the store makes us wait; empty when it does not."""
    source_trouble: str = ""
    """Why nothing can be read just now; empty when all is well."""

    def events_per_second(self, now_micros: int) -> float:
        """Mean rate since the start."""
        seconds = (now_micros - self.started_at_micros) / 1e6
        return self.events_stored / seconds if seconds > 0 else 0.0
