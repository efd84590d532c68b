"""The faults a pair can be started with, as data: what differs between prefill and decode."""

from dataclasses import dataclass, field

from falseok_lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to configure prefill and decode so that their transfers go wrong."""

    name: str
    explanation: str
    prefill_arguments: tuple[str, ...] = ()
    decode_arguments: tuple[str, ...] = ()
    prefill_connector_config: dict[str, object] = field(default_factory=dict)
    """Goes into `kv_connector_extra_config` of prefill's `--kv-transfer-config`."""
    decode_connector_config: dict[str, object] = field(default_factory=dict)
    """The same for decode."""


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(name="none", explanation="prefill and decode are configured alike"),
        Fault(
            name="dtype-mismatch",
            explanation="decode runs in float32, prefill in the model's bfloat16: the NIXL compatibility hashes differ",
            decode_arguments=("--dtype", "float32"),
        ),
    )
}


def fault_named(name: str) -> Fault:
    """The fault of that name.

    Raises:
        LabError: there is none; the message lists those there are.
    """
    if name not in FAULTS:
        raise LabError(f"There is no fault {name!r}. Choose one of: {', '.join(FAULTS)}.")
    return FAULTS[name]
