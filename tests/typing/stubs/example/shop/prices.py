def total(n: int) -> float:
    return n * 1.5


class Price:
    amount: float = 0.0
