"""What one engine is started with."""

import msgspec
import pytest

from falseok_lab.errors import LabError
from falseok_lab.sides import Side


def test_an_ordinary_engine_needs_nothing() -> None:
    """vLLM's own defaults are left alone."""
    assert [] == Side().command_line()
    assert not Side().several_processes


def test_sizes_and_arguments_become_vllm_arguments_in_this_order() -> None:
    """The caller's own come last, so that they win."""
    side = Side(
        tensor_parallel_size=2,
        data_parallel_size=3,
        api_server_count=4,
        kv_cache_blocks=20,
        arguments=["--max-num-seqs=8"],
    )
    expected = (
        "--tensor-parallel-size 2 --data-parallel-size 3 --api-server-count 4 --num-gpu-blocks-override 20"
    )
    assert [*expected.split(), "--max-num-seqs=8"] == side.command_line()


@pytest.mark.parametrize("name", ["tensor_parallel_size", "data_parallel_size", "api_server_count"])
def test_more_than_one_of_anything_is_several_processes(name: str) -> None:
    """Such an engine cannot keep its worker inside the engine core."""
    assert msgspec.structs.replace(Side(), **{name: 2}).several_processes


@pytest.mark.parametrize(
    ("side", "message"),
    [
        (Side(tensor_parallel_size=0), "tensor parallel size 0 is not possible"),
        (Side(data_parallel_size=9), "choose 1 to 8"),
        (Side(kv_cache_blocks=0), "0 blocks is none"),
    ],
    ids=["no rank", "too many", "no cache"],
)
def test_a_size_out_of_range_is_refused(side: Side, message: str) -> None:
    """With a message that says what is wrong."""
    with pytest.raises(LabError, match=message):
        side.check()
