"""Collections that stay in an HDF5 file or a zarr folder."""
