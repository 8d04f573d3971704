"""Spoiled batches for the decoder of columns, run in a process of its own whose kernels check every index they use.

Compiled kernels trust their indexes; numba can be told not to, and then what would read beyond an array raises.
"""

from __future__ import annotations

import random
import struct
import sys

from crc32c import crc32c

from bifrost.columnar.decoder import Decoder
from bifrost.columnar.encoder import Columns, encode
from bifrost.columnar.errors import CorruptBatch
from bifrost.columnar.kernels import kernels
from bifrost.columnar.partitioning import Partitioner
from bifrost.columnar.schema import ALL_COLUMNS
from bifrost.protocol.batch import HEADER_BYTES
from bifrost.protocol.records import encode_batch
from tests.fuzz.mutation import mutate


def batch(rng: random.Random) -> bytes:
    records = []
    for _ in range(rng.randrange(1, 8)):
        headers = [(rng.choice(["", "a", "é", "long" * 20]), rng.choice([None, b"", b"1"]))] * rng.choice([0, 0, 1, 3])
        key, value = (rng.choice([None, b"", rng.randbytes(rng.choice([3, 80, 9000]))]) for _ in range(2))
        records.append((rng.choice([0, 5, 1 << 40]), key, value, headers))
    return bytes(encode_batch(records))


def spoiled(rng: random.Random) -> bytes:
    """Wrong inside, with a CRC that is right: without one nothing inside is looked at."""
    whole = batch(rng)
    made = bytearray(whole[:HEADER_BYTES] + mutate(rng, whole[HEADER_BYTES:], [batch(rng)[HEADER_BYTES:]]))
    if rng.random() < 0.2:
        struct.pack_into(">i", made, 57, rng.choice([-1, 0, 1, 2, 7, 1 << 20]))
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def run(cases: int, seed: str) -> None:
    """Prints how many of the cases were refused, read, and written again."""
    refused = 0
    for number in range(cases):
        rng = random.Random(f"{seed}-{number}")
        data = spoiled(rng)
        columns = rng.sample(ALL_COLUMNS, rng.randrange(1, len(ALL_COLUMNS) + 1))
        try:
            found = list(Decoder("t", 0, columns, using=kernels("numba")).decode(data))
        except CorruptBatch:
            refused += 1
            continue
        except IndexError as error:
            raise AssertionError(f"FUZZ_SEED={seed}, case {number}: a kernel left its arrays: {error}") from error
        for each in found:
            each.validate(full=True)
            roles = {name: name if name in columns else None for name in ("key", "value", "headers")}
            list(encode(each, Partitioner(2), now_ms=5, columns=Columns(**roles), using=kernels("numba")))
    print(f"{refused} refused, {cases - refused} read")


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2])
