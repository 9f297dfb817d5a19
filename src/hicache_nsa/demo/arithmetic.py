"""Arithmetic word problems from a fixed seed: the same questions on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from hicache_nsa.demo.prompts import Question

NAMES = (
    *("Ada", "Bruno", "Carla", "Deniz", "Emeka", "Farah", "Goran", "Hana", "Ivo", "Jun", "Kaito"),
    *(
        "Leila",
        "Marta",
        "Nils",
        "Olga",
        "Priya",
        "Quentin",
        "Rosa",
        "Samir",
        "Tala",
        "Umar",
        "Vera",
    ),
)
THINGS = (
    *("apples", "pencils", "marbles", "stickers", "candles", "postcards", "buttons", "seashells"),
    *("notebooks", "tickets", "cookies", "beads", "stamps", "balloons", "walnuts", "ribbons"),
)
PLACES = (
    "market",
    "library",
    "school fair",
    "harbour",
    "bakery",
    "museum",
    "sports club",
    "garden",
)

Template = Callable[["_Draw"], tuple[str, str, int]]


class _Draw:
    """Random choices for one question.

    Only ``Random.randrange`` is used: its sequence for a seed is the same in
    every supported Python.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def number(self, low: int, high: int) -> int:
        return self._random.randrange(low, high + 1)

    def one(self, words: tuple[str, ...]) -> str:
        return words[self._random.randrange(len(words))]

    def two_names(self) -> tuple[str, str]:
        first = self._random.randrange(len(NAMES))
        second = (first + 1 + self._random.randrange(len(NAMES) - 1)) % len(NAMES)
        return NAMES[first], NAMES[second]


def _shared_boxes(draw: _Draw) -> tuple[str, str, int]:
    name, friend = draw.two_names()
    thing, boxes, each = draw.one(THINGS), draw.number(3, 12), draw.number(6, 24)
    given = draw.number(2, boxes * each // 2)
    total, left = boxes * each, boxes * each - given
    return (
        f"{name} packs {boxes} boxes with {each} {thing} in each of them. Before closing the "
        f"last one, {name} gives {given} {thing} to {friend}. How many {thing} does {name} "
        f"still have?",
        f"The boxes hold {boxes} * {each} = {total} {thing}. After the gift {name} has {total} "
        f"- {given} = {left} {thing}.",
        left,
    )


def _shopping(draw: _Draw) -> tuple[str, str, int]:
    name, _ = draw.two_names()
    thing, other = draw.one(THINGS[:8]), draw.one(THINGS[8:])
    count, price = draw.number(2, 9), draw.number(2, 7)
    more, cost = draw.number(2, 6), draw.number(3, 9)
    first, second = count * price, more * cost
    paid = first + second + draw.number(1, 40)
    return (
        f"At the {draw.one(PLACES)} {name} buys {count} {thing} for ${price} apiece and {more} "
        f"{other} for ${cost} apiece, and pays with ${paid}. How much change does {name} get, "
        f"in dollars?",
        f"The {thing} cost {count} * {price} = ${first} and the {other} {more} * {cost} = "
        f"${second}, together {first} + {second} = ${first + second}. The change is {paid} - "
        f"{first + second} = ${paid - first - second}.",
        paid - first - second,
    )


def _savings(draw: _Draw) -> tuple[str, str, int]:
    name, friend = draw.two_names()
    weekly, weeks, start = draw.number(4, 25), draw.number(3, 14), draw.number(10, 90)
    spent = draw.number(5, weekly * weeks)
    saved = weekly * weeks
    return (
        f"{name} has ${start} and saves ${weekly} every week for {weeks} weeks. Then {name} "
        f"spends ${spent} on a present for {friend}. How many dollars are left?",
        f"In {weeks} weeks {name} saves {weekly} * {weeks} = ${saved}, which makes {start} + "
        f"{saved} = ${start + saved}. After the present {start + saved} - {spent} = "
        f"${start + saved - spent} is left.",
        start + saved - spent,
    )


def _reading(draw: _Draw) -> tuple[str, str, int]:
    name, friend = draw.two_names()
    pages, days = draw.number(8, 30), draw.number(3, 9)
    extra = draw.number(2, 10)
    mine, theirs = pages * days, (pages + extra) * days
    return (
        f"{name} reads {pages} pages a day and {friend} reads {extra} pages a day more than "
        f"that. How many pages have the two of them read together after {days} days?",
        f"{name} reads {pages} * {days} = {mine} pages. {friend} reads {pages} + {extra} = "
        f"{pages + extra} pages a day, so {pages + extra} * {days} = {theirs}. Together they "
        f"have read {mine} + {theirs} = {mine + theirs} pages.",
        mine + theirs,
    )


def _trip(draw: _Draw) -> tuple[str, str, int]:
    name, _ = draw.two_names()
    speed, hours = 5 * draw.number(6, 18), draw.number(2, 6)
    slower, later = 5 * draw.number(3, 5), draw.number(1, 4)
    first, second = speed * hours, slower * later
    return (
        f"{name} drives to the {draw.one(PLACES)} of another town: {hours} hours at {speed} km "
        f"an hour, then {later} more on a small road at {slower} km an hour. How long is the "
        f"way in kilometres?",
        f"The first part is {speed} * {hours} = {first} km and the second {slower} * {later} = "
        f"{second} km. The whole way is {first} + {second} = {first + second} km.",
        first + second,
    )


def _teams(draw: _Draw) -> tuple[str, str, int]:
    team, teams, away = draw.number(4, 11), draw.number(3, 9), draw.number(1, 3)
    total, place = team * teams, draw.one(PLACES)
    return (
        f"{teams} teams of {team} children meet at the {place}. From every team {away} fall ill "
        f"and stay at home on the second day. How many children come on the second day?",
        f"On the first day {teams} * {team} = {total} children come. {teams} * {away} = "
        f"{teams * away} stay at home, so {total} - {teams * away} = {total - teams * away} "
        f"come on the second day.",
        total - teams * away,
    )


def _halves(draw: _Draw) -> tuple[str, str, int]:
    name, friend = draw.two_names()
    thing, half, more = draw.one(THINGS), draw.number(6, 40), draw.number(2, 30)
    whole = 2 * half
    return (
        f"{friend} owns {whole} {thing}. {name} owns half as many, and finds {more} more at the "
        f"{draw.one(PLACES)}. How many {thing} do {name} and {friend} own together now?",
        f"{name} starts with {whole} / 2 = {half} and then has {half} + {more} = {half + more} "
        f"{thing}. Together they own {whole} + {half + more} = {whole + half + more} {thing}.",
        whole + half + more,
    )


def _garden(draw: _Draw) -> tuple[str, str, int]:
    name, _ = draw.two_names()
    rows, plants, bad = draw.number(4, 15), draw.number(5, 20), draw.number(1, 4)
    fruit = draw.number(2, 9)
    good = rows * (plants - bad)
    return (
        f"{name} plants {rows} rows of {plants} tomato plants. In every row {bad} of them do "
        f"not grow; each of the others bears {fruit} tomatoes. How many tomatoes does {name} "
        f"pick?",
        f"In a row {plants} - {bad} = {plants - bad} plants grow, in all rows {rows} * "
        f"{plants - bad} = {good}. They bear {good} * {fruit} = {good * fruit} tomatoes.",
        good * fruit,
    )


TEMPLATES: tuple[Template, ...] = (
    *(_shared_boxes, _shopping, _savings, _reading),
    *(_trip, _teams, _halves, _garden),
)


def word_problems(seed: int) -> Iterator[Question]:
    """Endless word problems with worked answers, no two with the same text.

    The templates take turns in an order drawn anew for each round.
    """
    random = Random(seed)
    draw = _Draw(random)
    seen: set[str] = set()
    while True:
        waiting = list(TEMPLATES)
        while waiting:
            template = waiting.pop(random.randrange(len(waiting)))
            question, steps, result = template(draw)
            if question in seen:
                continue
            seen.add(question)
            yield Question(question, f"{steps}\n#### {result}")
