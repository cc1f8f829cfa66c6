from training_checklist.instruments import Data, Example, Tagger, on_datasets, part, tagged, tokens_of
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    own = part(data, data.train)
    texts = {place: tokens for place in data.roles.tables if len(tokens := tokens_of(own, place=place)[0])}
    if not texts:
        raise CannotJudge("no texts enter the network")
    for place, tokens in texts.items():
        rows, most = data.roles.tables[place], tokens.mode().values
        share = float((tokens == most).float().mean())
        if rows >= limits.min_tokens and share > limits.max_token_share:
            yield Hit(
                f"{share:.0%} of the tokens in {place} are {int(most)}, of an embedding with {rows} rows",
                data.train.place.beside(note=place),
            )


class Fewer(Tagger):
    words = 40


class Enough(Tagger):
    words = 200


def mostly(share: float, module: type = Enough) -> Example:
    return on_datasets(*[lambda: tagged(40, share)] * 2, module=module)


PROBE = Probe(
    question="Do texts consist of many different tokens, and not mostly of one, such as that for unknown words?",
    why="if this is the token for unknown words, the vocabulary was made of other words than texts are encoded with: "
    "of another case, another split, or another language",
    severity=WARNING,
    fix=Fix("look up what the token stands for; clean and split texts by one function, for the vocabulary and after"),
    detect=detect,
    faulty=mostly(0.5),
    healthy=mostly(0.2),
    thresholds={
        "max_token_share": Threshold(
            1 / 3, "of the tokens: the most frequent word of a language is some 7% of its words, a space 18% of letters"
        ),
        "min_tokens": Threshold(
            100,
            "rows: of few kinds of tokens, as in DNA or music, one may be most of them",
            healthy=mostly(0.5, Fewer),
        ),
    },
)
