"""The shipped recording that the demo plays, and what to say about where it comes from."""

from collections import Counter

from falseok_lab.recording import Recording, load, shipped

DEMO_RECORDING = "vllm-0.27.0-dtype-mismatch"
"""Real engines of vLLM 0.27.0, prefill in bfloat16 and decode in float32: every answer a corrupted 200."""


def demo_recording() -> Recording:
    """The recording, checked against its manifest. Raises `LabError` when it is not there or damaged."""
    return load(shipped(DEMO_RECORDING))


def provenance(recording: Recording) -> list[str]:
    """Where the recording comes from, what was wrong with the pair, and what its clients saw."""
    manifest = recording.manifest
    versions = manifest.versions
    statuses = Counter(truth.status for truth in manifest.ground_truth)
    seen = ", ".join(f"{number} times HTTP {status}" for status, number in sorted(statuses.items()))
    engines = (
        f"vLLM {versions['vllm']}, torch {versions['torch']}, NIXL {versions['nixl']}, model {manifest.model}"
    )
    return [
        f"Recorded on real engines: {engines}, {manifest.created}",
        f"  {manifest.fault_explanation}",
        f"  what the clients saw: {seen}",
    ]
