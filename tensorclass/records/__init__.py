"""Records: collections whose keys are declared as the fields of a class."""
