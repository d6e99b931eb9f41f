"""Reports: what a run came to, for people, for pull requests and for other programs."""
