"""Ports of a pair."""

import os
import socket
from collections.abc import Iterator

import msgspec
import pytest

from falseok_lab.errors import LabError
from falseok_lab.ports import Ports, free_ports, is_free, require_free

KEY = f"lab of test process {os.getpid()}"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port this very process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_ports_are_free_different_and_the_same_for_the_same_key() -> None:
    """A lab keeps its addresses from start to start."""
    ports = free_ports(KEY)
    numbers = msgspec.structs.astuple(ports)
    assert 5 == len(set(numbers))
    assert all(is_free(port) for port in numbers)
    assert ports == free_ports(KEY)


def test_ports_of_another_lab_are_left_out() -> None:
    """Another lab may be about to use its ports without listening yet."""
    first = msgspec.structs.astuple(free_ports(KEY))
    assert set() == set(first) & set(msgspec.structs.astuple(free_ports(KEY, taken=first)))


def test_a_taken_port_is_named_with_its_use_and_its_holder(taken: int) -> None:
    """The message says which port, what for, and which process to end."""
    ports = msgspec.structs.replace(free_ports(KEY), decode_side_channel=taken)
    with pytest.raises(LabError) as caught:
        require_free(ports)
    assert f"Port {taken} (for the decode side channel)" in str(caught.value)
    assert f"(pid {os.getpid()})" in str(caught.value)


def test_free_ports_pass() -> None:
    """Ports nobody holds are accepted."""
    require_free(Ports(**msgspec.structs.asdict(free_ports(KEY))))


def test_data_parallel_ranks_get_side_channels_in_a_row() -> None:
    """Rank n of an engine listens on its base port + n, and no other use of the pair is among them."""
    ports = free_ports(KEY, ranks=3)
    first, second = ports.prefill_side_channel, ports.decode_side_channel
    row = [port + rank for port in (first, second) for rank in range(3)]
    assert 9 == len({*row, ports.router, ports.prefill, ports.decode})
    assert all(is_free(port) for port in row)
