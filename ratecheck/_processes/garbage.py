"""How often Python looks for garbage in circles of references.

By default it looks after every 700 new objects. Compiling, importing and drawing make millions that
stay, and looking at them again and again took a tenth of the time of compiling and a fifth of that
of drawing. What is in no circle, as all arrays are, is freed at once whatever the setting.
"""

from __future__ import annotations

import gc

__all__ = ["collect_seldom"]

#: New objects after which Python looks at the young ones; older ones after as many looks as before.
_OBJECTS = 10_000


def collect_seldom() -> None:
    """Have this process look for garbage less often; one that looks even less often stays so."""
    first, *older = gc.get_threshold()
    if 0 < first < _OBJECTS:
        gc.set_threshold(_OBJECTS, *older)
