"""The same four records as Kafka 4.3's own MemoryRecordsBuilder writes them, once for each codec.

Producer 4000, epoch 2, base sequence 17, transactional, leader epoch 5.
"""

from __future__ import annotations

from base64 import b64decode

from bifrost.protocol.compression import Codec
from bifrost.protocol.records import Record

RECORDS = [
    Record(0, 1700000000000, b"k0", b"v0", (("h", b"x"), ("n", None))),
    Record(1, 1700000000005, None, b"value-without-key", ()),
    Record(2, 1699999999990, b"k2", None, ()),
    Record(3, 1700000000001, b"k3", b"r" * 80, ()),
]

BATCHES = {
    Codec.NONE: b64decode(
        "AAAAAAAAAAAAAAC/AAAABQIbbABkABAAAAADAAABi8/laAAAAAGLz+VoBQAAAAAAAA+gAAIAAAARAAAABCIAAAAEazAEdjAEAmgCeAJuAS4A"
        "CgIBInZhbHVlLXdpdGhvdXQta2V5ABAAEwQEazIBALIBAAIGBGszoAFycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJy"
        "cnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycgA="
    ),
    Codec.GZIP: b64decode(
        "AAAAAAAAAAAAAACGAAAABQK7lKwqABEAAAADAAABi8/laAAAAAGLz+VoBQAAAAAAAA+gAAIAAAARAAAABB+LCAAAAAAAAP9TYmBgYMk2YCkz"
        "YGHKYKpgymPUY+BiYlQqS8wpTdUtzyzJyC8t0c1OrWQQYBBmYck2YmTYxMjAxMaSbbyAsYjKgAEA6P+uzo4AAAA="
    ),
    Codec.SNAPPY: b64decode(
        "AAAAAAAAAAAAAACQAAAABQIXkEYnABIAAAADAAABi8/laAAAAAGLz+VoBQAAAAAAAA+gAAIAAAARAAAABIJTTkFQUFkAAAAAAQAAAAEAAABL"
        "jgHwPiIAAAAEazAEdjAEAmgCeAJuAS4ACgIBInZhbHVlLXdpdGhvdXQta2V5ABAAEwQEazIBALIBAAIGBGszoAFycv4CADYCAAAA"
    ),
    Codec.LZ4: b64decode(
        "AAAAAAAAAAAAAACJAAAABQK+o6hsABMAAAADAAABi8/laAAAAAGLz+VoBQAAAAAAAA+gAAIAAAARAAAABAQiTRhgQIJJAAAA/y8iAAAABGsw"
        "BHYwBAJoAngCbgEuAAoCASJ2YWx1ZS13aXRob3V0LWtleQAQABMEBGsyAQCyAQACBgRrM6ABcgEAOFBycnJyAAAAAAA="
    ),
    Codec.ZSTD: b64decode(
        "AAAAAAAAAAAAAACEAAAABQI+NzwmABQAAAADAAABi8/laAAAAAGLz+VoBQAAAAAAAA+gAAIAAAARAAAABCi1L/0AWDwCAPQDIgAAAARrMAR2"
        "MAQCaAJ4Am4BLgAKAgEidmFsdWUtd2l0aG91dC1rZXkAEAATBARrMgEAsgEAAgYEazOgAXIAAQDOKIACAQAA"
    ),
}
