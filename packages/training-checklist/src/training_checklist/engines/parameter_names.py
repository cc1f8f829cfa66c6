"""Names of parameters, as a reader wants them: whole modules rather than all that is in them."""

from collections.abc import Iterable


def gather(names: Iterable[str], trained: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Gather parameters under the outermost modules all of whose trained ones are among them.

    Single ones stand for themselves: a weight beside others that are not among them is not its module's failure.
    """
    names, trained = list(names), list(trained)
    chosen, found = set(names), []
    while chosen:
        name = next(name for name in names if name in chosen)
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            inside = [other for other in trained if other == path or other.startswith(f"{path}.")]
            if inside and all(other in chosen for other in inside):
                break
        chosen -= {name, *inside}
        found.append((path, inside))
    return [part for part in found if part[0] != part[1][0]] + [part for part in found if part[0] == part[1][0]]


def counted(names: list[str]) -> str:
    return "the parameter" if len(names) == 1 else f"the {len(names)} parameters"


def shown(names: Iterable[object], most: int = 4) -> str:
    """Return the first of some names, and how many more there are."""
    names = list(names)
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
