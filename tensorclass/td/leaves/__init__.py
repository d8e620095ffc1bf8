"""Values that are neither tensors nor collections: objects, text, tensors without the batch."""
