"""The machine is taken out of recorded values."""

from falseok_lab.neutral import Neutralizer

NEUTRALIZER = Neutralizer(
    {"/data": "/lab", "/data/models/tiny": "/models/tiny", "/home/ada": "/home/lab"}, "vm"
)


def test_paths_become_placeholders_wherever_they_stand_the_longest_first() -> None:
    """In values and keys of any depth, several in one string."""
    value = {
        "/data/a": [{"model": "/data/models/tiny/config.json", "args": "--a=/data/x:/home/ada/y /data"}],
        "n": 3,
    }
    expected = {
        "/lab/a": [{"model": "/models/tiny/config.json", "args": "--a=/lab/x:/home/lab/y /lab"}],
        "n": 3,
    }
    assert expected == NEUTRALIZER.value(value)


def test_a_path_that_only_begins_alike_is_kept() -> None:
    """`/data` is not the beginning of `/database`."""
    assert "/database /data-2 /data.d /lab" == NEUTRALIZER.text("/database /data-2 /data.d /data")


def test_the_host_is_replaced_where_it_is_the_whole_value_or_stands_before_a_port() -> None:
    """A short host name is part of many words."""
    texts = ["vm", "vm:5600", "vm:x", "vllm", "a vm"]
    assert ["lab-host", "lab-host:5600", "vm:x", "vllm", "a vm"] == [NEUTRALIZER.text(text) for text in texts]


def test_what_was_not_replaced_is_found() -> None:
    """The last look before something is written."""
    assert [] == NEUTRALIZER.left_in(NEUTRALIZER.text("/data/x"))
    assert ["/data"] == NEUTRALIZER.left_in("/database")
