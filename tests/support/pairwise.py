"""Few of many cases that still meet each pair of levels of their factors."""

from itertools import combinations


def pairwise(cases):
    """Return those of these tuples, by greedy choice, that have all pairs that any of them has."""
    cases = list(cases)
    pairs = {case: {*combinations(enumerate(case), 2)} for case in cases}
    missing, chosen = set().union(*pairs.values()), set()
    while missing:
        case = max(pairs, key=lambda case: len(pairs[case] & missing))  # the first of the best
        missing -= pairs[case]
        chosen.add(case)
        pairs = {case: new for case, own in pairs.items() if (new := own & missing)}
    return [case for case in cases if case in chosen]
