"""Collections that stay in a Redis server."""
