"""Memory of tensors: files, shared memory, one buffer for all."""
