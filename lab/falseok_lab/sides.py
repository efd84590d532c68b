"""What one engine of a pair is started with beside what both share."""

import msgspec

from falseok_lab.errors import LabError

MAX_RANKS = 8
"""Side-channel ports are set aside for so many data-parallel ranks."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The size of one engine, and arguments of one's own for it."""

    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    """Engine cores behind one address, each with a KV cache of its own."""
    api_server_count: int = 1
    """Front-end processes behind one address."""
    kv_cache_blocks: int | None = None
    """Size of the KV cache in blocks; few of them make the scheduler preempt. None: what the model is known to need."""
    arguments: list[str] = []
    """Handed to vLLM as they are, after all others."""

    @property
    def several_processes(self) -> bool:
        """Whether the engine can only run as several processes."""
        return max(self.tensor_parallel_size, self.data_parallel_size, self.api_server_count) > 1

    def command_line(self) -> list[str]:
        """vLLM's arguments for it."""
        sizes = {
            "--tensor-parallel-size": self.tensor_parallel_size,
            "--data-parallel-size": self.data_parallel_size,
            "--api-server-count": self.api_server_count,
        }
        line = [part for name, size in sizes.items() if size > 1 for part in (name, str(size))]
        if self.kv_cache_blocks is not None:
            line += ["--num-gpu-blocks-override", str(self.kv_cache_blocks)]
        return line + self.arguments

    def check(self) -> None:
        """Check what the caller chose.

        Raises:
            LabError: a size is out of range.
        """
        for name in ("tensor_parallel_size", "data_parallel_size", "api_server_count"):
            size = getattr(self, name)
            if not 1 <= size <= MAX_RANKS:
                raise LabError(
                    f"{name.replace('_', ' ')} {size} is not possible here: choose 1 to {MAX_RANKS}."
                )
        if self.kv_cache_blocks is not None and self.kv_cache_blocks < 1:
            raise LabError(f"A KV cache of {self.kv_cache_blocks} blocks is none.")
