"""Six words that stand for an agreement, for two people who compare them over the phone.

- Six words of a list of 256 are 48 bits of the agreement's hash.
- 48 bits suffice because nobody can search for a second agreement with the same words: every participant
  adds a random number that it commits to before, and shows after, everything else is fixed
  (`exchange`, decision 0409). An attacker who swaps a card has one try, which passes with probability 2^-48.
"""

from __future__ import annotations

import hashlib

WORDS = tuple(
    """
    accent acorn actor album amber anchor ankle apple april apron arrow atlas attic
    autumn axis bacon badge baker bamboo banjo barrel basil basket beach beaver berry
    bicycle bishop blanket blossom bottle branch bread bridge bronze brush bubble bucket butter
    button cabin cactus camel candle canoe canyon captain carbon carpet castle cathedral cellar
    cement chalk chapel cherry chimney circle citrus clover cobalt cocoa coffee comet compass
    copper coral cotton cradle crane crater cricket crystal curtain daisy dancer desert diamond
    diary dinner doctor dolphin donkey dragon drum eagle easel echo elbow eleven emerald
    engine envelope evening fabric falcon feather festival fiddle flame flute forest fossil fountain
    fox frost garden garlic gazelle ginger giraffe glacier goblet gorilla gravel guitar hammer
    harbor hazel helmet heron hockey honey hotel hunter hurricane igloo insect island ivory
    jacket jaguar jasmine jersey journey jungle kayak kettle kingdom kitchen kitten ladder lagoon
    lantern lawn lemon lentil leopard library lizard lobster lotus lunar magnet mango maple
    marble meadow melon mercury mirror monument morning museum mustard napkin nectar needle nephew
    nickel noodle november nutmeg oasis ocean olive onion opera orange orbit orchid otter
    oven owl oyster panda paper parrot pebble pepper pilot planet plum polar potato
    prairie pumpkin puzzle pyramid quartz quilt rabbit radar ribbon river robin rocket ruby
    saddle salmon sandal satellite scarf seven shadow silver sister sketch spider sponge squash
    statue sugar summit sunset tablet talon teapot temple thunder ticket tiger timber tomato
    trumpet tulip tunnel turtle umbrella uncle valley vanilla velvet violin volcano walnut walrus
    water whale willow window winter yellow yogurt zebra zipper
    """.split()  # noqa: SIM905  # a list literal would take 256 lines
)
"""Short nouns; no two differ in a single letter."""

N_WORDS = 6


def words_of(run_id: bytes) -> tuple[str, ...]:
    """The words of an agreement, from the id of its first run: the hash of all certificates and terms."""
    digest = hashlib.sha256(b"fedvalue/1/words\x00" + run_id).digest()
    return tuple(WORDS[byte] for byte in digest[:N_WORDS])
