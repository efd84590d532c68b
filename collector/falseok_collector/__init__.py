"""What runs inside vLLM: the event contract, the hooks, the response tap, the ring and the sinks.

This package is installed beside vLLM, so it imports little and knows nothing of the service.
"""
