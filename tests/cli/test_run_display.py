"""The status line in a log file and on a terminal."""

import io

from rich.console import Console

from falseok.run_display import LiveDisplay, PlainDisplay, display_for


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    """A console over memory."""
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=80, markup=False, highlight=False), stream


def test_log_file_gets_a_line_when_it_changed_and_not_too_often() -> None:
    """Ten ticks a second do not become ten lines a second."""
    out, stream = console(terminal=False)
    display = PlainDisplay(out)
    for now, line in ((0.0, "a"), (0.5, "b"), (30.0, "b"), (90.0, "b"), (91.0, "c")):
        display.show(line, now)
    assert "a\nb\nc\n" == stream.getvalue()


def test_announcements_always_stay() -> None:
    """An incident is told at once, in both shapes, with hostile text made plain."""
    for terminal in (False, True):
        out, stream = console(terminal=terminal)
        display = display_for(out)
        display.announce("new incident \x07[red]x[/red]")
        display.close()
        assert "new incident [red]x[/red]" in stream.getvalue()
        assert "\x07" not in stream.getvalue()


def test_terminal_gets_one_line_in_place_and_its_cursor_back() -> None:
    """The live display fits terminals only."""
    live, _ = console(terminal=True)
    plain, _ = console(terminal=False)
    display = display_for(live)
    display.show("1 event", 0.0)
    display.close()
    display.close()
    assert isinstance(display, LiveDisplay)
    assert isinstance(display_for(plain), PlainDisplay)


def test_the_last_state_is_said_at_the_end() -> None:
    """What was too soon for a log file, and the line a terminal rewrites, stay on the screen when the run ends."""
    for terminal in (False, True):
        out, stream = console(terminal=terminal)
        display = display_for(out)
        display.show("0 events", 0.0)
        display.show("470 events", 0.5)
        display.close()
        assert stream.getvalue().rstrip().endswith("470 events")
