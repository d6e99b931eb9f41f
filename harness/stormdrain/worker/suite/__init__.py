"""A pytest suite in the target's own interpreter, collected once and put to many mutants.

Importing and collecting cost a hundred times what most tests do. So one process
collects, never runs a test or a loop, and forks for every mutant; the child
swaps code objects in place and runs the tests that cover them.
"""
