"""Seeds and generators of random numbers."""

import numpy as np

RandomState = int | np.random.Generator | None


def generator(random_state: RandomState) -> np.random.Generator:
    """Random numbers from a seed or generator, or an error in words.

    Parameters
    ----------
    random_state : int, Generator or None
        A seed; a generator is returned as it is; None seeds from the system.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    ValueError
        If it is none of these.
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be a whole number, not negative, a numpy Generator or None; got "
            f"{random_state!r}. Pass 0 for the same numbers every time."
        ) from error
