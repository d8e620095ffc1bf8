from .records import Sample


def load(n: int) -> Sample:
    return Sample.blank(n)
