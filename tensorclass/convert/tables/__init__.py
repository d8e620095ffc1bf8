"""Converters of tables and table files: Arrow, pandas, polars, Parquet, CSV, JSON."""
