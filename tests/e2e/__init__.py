"""Tests across components."""
