"""What a drive asks."""

import pytest

from falseok_lab.request_bodies import TOOL, DriveSettings, endpoint_of, request_body


def test_the_same_run_asks_the_same() -> None:
    """A request is decided by run and number alone, unless a seed is given."""
    settings = DriveSettings()
    assert request_body(settings, 3, "r1", "tiny") == request_body(settings, 3, "r1", "tiny")
    assert request_body(settings, 3, "r1", "tiny") != request_body(settings, 3, "r2", "tiny")
    seeded = DriveSettings(seed=1)
    assert request_body(seeded, 3, "r1", "tiny") == request_body(seeded, 3, "r2", "tiny")


@pytest.mark.parametrize(
    ("settings", "streams", "chats"),
    [
        pytest.param(DriveSettings(stream="always", endpoint="chat"), 4, 4, id="streamed chats"),
        pytest.param(DriveSettings(stream="never", endpoint="completions"), 0, 0, id="whole completions"),
        pytest.param(DriveSettings(), 2, 2, id="mixed"),
    ],
)
def test_streams_and_endpoints_can_be_chosen(settings: DriveSettings, streams: int, chats: int) -> None:
    """Of four requests."""
    bodies = [request_body(settings, index, "r1", "tiny") for index in range(4)]
    assert (streams, chats) == (
        sum("stream" in one for one in bodies),
        sum("messages" in one for one in bodies),
    )


def test_a_plain_request_says_nothing_it_was_not_told() -> None:
    """Defaults of the server stay the server's."""
    assert {"model", "temperature", "max_tokens", "messages"} == request_body(
        DriveSettings(), 0, "r1", "tiny"
    ).keys()


def test_choices_length_thinking_and_tools_are_asked_for_in_the_words_of_the_api() -> None:
    """All at once, on a chat."""
    settings = DriveSettings(n=2, ignore_eos=True, max_tokens=600, thinking=False, tools=True)
    body = request_body(settings, 0, "r1", "tiny")
    assert (2, True, 600) == (body["n"], body["ignore_eos"], body["max_tokens"])
    assert {"enable_thinking": False} == body["chat_template_kwargs"]
    assert ([TOOL], "required") == (body["tools"], body["tool_choice"])


def test_the_responses_api_names_things_otherwise() -> None:
    """Its limit, its input, and no stream options; a stream like any other."""
    settings = DriveSettings(endpoint="responses", stream="always")
    body = request_body(settings, 0, "r1", "tiny")
    assert {"model", "temperature", "input", "max_output_tokens", "store", "stream"} == body.keys()
    assert "responses" == endpoint_of(settings, 1)
