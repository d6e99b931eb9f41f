"""Runs inside a scripted process: compiled by `program`, never imported by the trial."""
