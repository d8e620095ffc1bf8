"""How collections are shown: as text, in notebooks, and by rich."""
