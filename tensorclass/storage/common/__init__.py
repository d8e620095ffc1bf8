"""Code that all file formats share."""
