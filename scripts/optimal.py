"""How much regret could have been avoided: exact regrets of rules beside the best possible.

python scripts/optimal.py --out docs        # makes docs/optimal.md and its picture
python scripts/optimal.py --out results/optimal --scale 0.02

Regrets are exact but where the page says otherwise. `--scale` is the share of the full sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from time import process_time

import joblib
from avoidable import costs, exact, racing
from pages.command import add_scale, new_parser, scaled
from pages.page import Section, write_page

SIZES = {
    "two": 100,  # pulls of two arms, of three, of five
    "three": 30,
    "five": 12,
    "worst": 50,
    "costly": 60,
    "rounds": 5,
    "horizon": 1000,
    "replications": 2000,
    "players": 20_000,
    "samples": 5000,
    "histories": 300,
    "races": 500,
}
PARTS = {
    "arms": exact.compare,
    "worst": exact.find_worst,
    "costs": costs.place,
    "racing": racing.explain,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "results/optimal", 1)
    parser.add_argument("--only", choices=[*PARTS, "all"], default="all")
    add_scale(parser)
    options = parser.parse_args(arguments)
    sizes = scaled(SIZES, options.scale)
    parts = PARTS.values() if options.only == "all" else [PARTS[options.only]]
    sections = joblib.Parallel(options.workers)(joblib.delayed(_run)(part, sizes) for part in parts)
    text = (
        f"Made by `python scripts/optimal.py --out docs --scale {options.scale:g}`. Every rule's "
        "regret is beside the least that any rule can have, under the prior that the means are "
        "drawn from. See `agents.bayes_optimal`."
    )
    write_page(options.out / "optimal.md", "The best possible", text, sections)
    return 0


def _run(part: Callable[[Mapping[str, int]], Section], sizes: Mapping[str, int]) -> Section:
    begin = process_time()
    section = part(sizes)
    print(f"{section.title}: {process_time() - begin:.0f} s", file=sys.stderr, flush=True)
    return section


if __name__ == "__main__":
    sys.exit(main())
