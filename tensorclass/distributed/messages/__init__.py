"""Messages: a collection from one process to another."""
