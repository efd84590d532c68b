"""Incidents and their causes: what is wrong between two engines, why, and what to change, as reviewed data.

Reads the pipeline's views; knows nothing of terminals, pagers or the collector's hooks.
"""
