"""Writes a big log of a busy decode server in which some requests fail, line after line, in bounded memory."""

from pathlib import Path

from tests.pipeline.sources.logs.lines import access, failure, line, mismatch, start, traceback

_SECONDS_A_DAY = 86_400
FAILURE_EVERY_LINES = 4_000


def write_big_log(path: Path, size_bytes: int) -> tuple[int, int]:
    """Lines written and requests failed. Ten lines a second: access lines, metrics, warnings, now and then a failure."""
    written = lines = failures = 0
    with path.open("w", encoding="utf-8") as file:
        for text in start("decode"):
            written += file.write(f"{text}\n")
            lines += 1
        while written < size_bytes:
            second = lines // 10 % _SECONDS_A_DAY
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            if lines % FAILURE_EVERY_LINES < 40:
                failures += 1
                batch = [failure(failures, clock=clock), *traceback(mismatch(), clock=clock), access()]
            elif lines % 3:
                batch = [access()]
            else:
                told = "Engine 000: Avg prompt throughput: 16.7 tokens/s, Avg generation throughput: 0.2 tokens/s, Running: 3"
                batch = [line(told, label="APIServer", level="INFO", clock=clock, place="loggers.py:310")]
            for text in batch:
                written += file.write(f"{text}\n")
                lines += 1
    return lines, failures
