"""Collections shown as text, in notebooks, and by rich."""
