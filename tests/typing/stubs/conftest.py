collect_ignore = ["example"]  # modules that are read, not run
