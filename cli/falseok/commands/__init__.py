"""One file per command or command group; each parses its options, calls the packages below, and renders."""
