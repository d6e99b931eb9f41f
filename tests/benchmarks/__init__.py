"""Speed, as ratios in one run on one machine. Nothing here asserts a time."""
