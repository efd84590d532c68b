"""Real prefill/decode pairs of vLLM on this machine, the traffic to drive them, and recordings of what they did."""
