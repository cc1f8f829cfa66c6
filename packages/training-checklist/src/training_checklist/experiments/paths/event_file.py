"""How many scalars a TensorBoard event file holds, read without TensorBoard.

An event file is a row of records: 8 bytes of length, 4 of checksum, the record, 4 of checksum. A record is a
protobuf message Event whose field 5 is a Summary; field 1 of that, repeated, is a Value with its tag in field 1 and,
for a scalar, a float in field 2 or a tensor in field 8.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

NO_METRICS = ("hp_metric", "_hparams_/")  # what Lightning and TensorBoard write for hyperparameters


def scalars(path: Path) -> set[str]:
    """Return the tags of the scalars of an event file; one that is cut off gives what comes before."""
    data = path.read_bytes()
    tags, position = set(), 0
    while position + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, position)
        record = data[position + 12 : position + 12 + length]
        position += length + 16
        if len(record) < length:
            break
        for number, summary in fields(record):
            if number == 5 and isinstance(summary, bytes):
                tags |= {tag for tag in map(scalar_tag, values(summary)) if tag and not tag.startswith(NO_METRICS)}
    return tags


def values(summary: bytes) -> list[bytes]:
    return [value for number, value in fields(summary) if number == 1 and isinstance(value, bytes)]


def scalar_tag(value: bytes) -> str | None:
    """Return the tag of a Value that holds a scalar, else None."""
    content = dict(fields(value))
    is_scalar = 2 in content or (8 in content and b"scalars" in content.get(9, b""))
    return content[1].decode(errors="replace") if is_scalar and 1 in content else None


def fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield (field number, content) of a protobuf message; fixed-size and length-delimited content as bytes."""
    position = 0
    while position < len(message):
        key, position = varint(message, position)
        kind = key & 7
        if kind == 0:
            value, position = varint(message, position)
            yield key >> 3, value
            continue
        if kind == 2:
            length, position = varint(message, position)
        else:
            length = {1: 8, 5: 4}.get(kind, len(message))
        yield key >> 3, message[position : position + length]
        position += length


def varint(message: bytes, position: int) -> tuple[int, int]:
    """Return (value, next position) of an integer in base 128, lowest digit first."""
    value = shift = 0
    while position < len(message):
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value, position
