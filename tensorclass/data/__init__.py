"""Data sets of records, their batches, and a typed data loader."""
