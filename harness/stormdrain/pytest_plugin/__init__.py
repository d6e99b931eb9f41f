"""The pytest plugin: the `storm` marker and fixture, a campaign in the process that runs the tests."""
