"""The `falseok` command: wiring, terminal output and settings. Everything may be imported here; nobody imports this."""
