"""What runs inside the target's own interpreter: guardian, worker, trials. Standard library only."""
