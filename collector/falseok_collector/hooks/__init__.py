"""Hooks into vLLM: what is wrapped (`table`), how (`probe`), and what each observer makes of it."""
