"""Checks the hook table against the Python sources of every supported vLLM, without starting or importing any."""
