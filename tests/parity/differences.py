def is_known(*a): return False
