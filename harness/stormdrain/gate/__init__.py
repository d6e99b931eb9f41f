"""The gate: the policy that turns a run into an exit code."""
