"""Values with rows of different length: :class:`Ragged`, :class:`Text` and :class:`Column`."""
