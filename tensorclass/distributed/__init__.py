"""Collections between processes, on the groups of ``torch.distributed``.

One collection moves as one message: its small tensors are put into one piece of memory (:mod:`.layout`), the large ones
go as they are.
"""
