"""Log files of engines that nobody instrumented, read as events: what the lines say, with `origin: log`."""
