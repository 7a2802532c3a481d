"""Numbers in words, as people write them."""


def figure(value: float, digits: int = 4) -> str:
    """A number to at most four digits as people write it: 2,451 and not 2.451e+03."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if 1000 <= abs(float(text)) < 1e12 else text


def std_in_words(noise: str, std: float, at_median: bool) -> str:
    """A standard deviation with its unit; that of a transformed series depends on the level."""
    unit = "units of y, at its median" if at_median else "units of y"
    return f"{noise}: standard deviation {figure(std)} ({unit})"


def counted(n: int, noun: str) -> str:
    """A number of things in words: 1 value, 2 values."""
    return f"{n} {noun}{'s' * (n != 1)}"
