"""What stands in for the world: scripted children and peers, which are real processes."""
