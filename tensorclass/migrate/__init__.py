"""Sources that use PyTorch's ``tensordict``, rewritten for this package: ``tensorclass migrate``."""
