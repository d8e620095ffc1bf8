"""What type checkers need to see through ``@tensorclass``."""
