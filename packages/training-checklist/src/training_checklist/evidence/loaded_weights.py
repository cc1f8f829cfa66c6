"""What calls of load_state_dict came to."""

from dataclasses import dataclass

from training_checklist.finding import NOWHERE, Place


@dataclass
class LoadedWeights:
    """One call of load_state_dict(strict=False) in the project's code.

    Args:
        module: class of the module that was to have the weights.
        given: how many keys the call was given.
        expected: how many keys the module has.
        matched: how many of the given ones the module has.
        unexpected: the first given key that the module does not have.
        missing: the first key of the module that was not given.
        surplus: the prefix without which most keys match, "" where there is none.
        lacking: the prefix with which most keys match, "" where there is none.
        nested: the given key whose value holds keys of the module, "" where there is none.
        place: the line of the call.
    """

    module: str
    given: int
    expected: int
    matched: int
    unexpected: str = ""
    missing: str = ""
    surplus: str = ""
    lacking: str = ""
    nested: str = ""
    place: Place = NOWHERE
