"""Random bundles and what an independent implementation makes of them, one a line:

    mode group seed first-message time lengths packets crc32

`python3 bundles.py COUNT SEED MOST_MESSAGES`. The test `bundles_equal_the_oracles` reads such lines.
"""
import random
import sys
import zlib

import acref

count, seed, most = (int(argument) for argument in sys.argv[1:4])
rng = random.Random(seed)


def length():
    kind = rng.randrange(8)
    if kind == 0:
        return 448 * rng.randint(1, 3)
    if kind == 1:
        return rng.choice((4, 5, 431, 432, 433, 447, 448, 449, 462, 463, 464, 465, 895, 897, 911, 912))
    if kind < 5:
        return rng.randint(4, 144)
    return rng.randint(4, 1600)


for _ in range(count):
    mode = rng.choice(("ace", "ace", "client"))
    group = 10 if mode == "client" else rng.choice((1, 9, 9, 10))
    lengths = [length() for _ in range(rng.randint(1, most))]
    keys, first, time = rng.getrandbits(32), rng.getrandbits(20), rng.getrandbits(16)
    packets = acref.bundle(lengths, group, keys, first, time, compat=mode == "ace")
    crc = zlib.crc32(bytes.fromhex("".join(packets)))
    print(mode, group, keys, first, time, ",".join(map(str, lengths)), len(packets), "%08x" % crc)
