"""Support code that knows nothing of collections: files, interrupts, optional packages, progress, log."""
