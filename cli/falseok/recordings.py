"""The shipped recording that the demo plays, and what to say about where it comes from."""

from falseok_lab.recording import Recording, load, shipped

DEMO_RECORDING = "vllm-0.27.0-dtype-mismatch"
"""Real engines of vLLM 0.27.0, prefill in bfloat16 and decode in float32: every answer a corrupted 200."""


def demo_recording() -> Recording:
    """The recording, checked against its manifest. Raises `LabError` when it is not there or damaged."""
    return load(shipped(DEMO_RECORDING))


def provenance(recording: Recording) -> str:
    """Where the recording comes from, as one line."""
    return f"recorded {recording}"
