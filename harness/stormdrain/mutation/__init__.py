"""Mutants: changed versions of the code under test, and which tests notice them, on which interpreter."""
