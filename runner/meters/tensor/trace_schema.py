"""Define protobuf's class for TensorFlow's profile, an `XSpace`, with the few fields that are read.

TensorFlow's own class has `string` for texts. Names come from anywhere, some are not UTF-8, and
protobuf refuses a whole file for one such string: so texts are `bytes` here. It also needs no
TensorFlow. The whole schema is tsl/profiler/protobuf/xplane.proto in https://github.com/openxla/xla.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_SCHEMA = """
Space: 1 planes Plane*
Plane: 3 lines Line*, 4 event_names Entry*, 5 stat_names Entry*, 6 stats Stat*
Entry: 1 key int64, 2 value Named
Named: 2 name bytes, 4 display_name bytes
Line: 1 id int64, 2 name bytes, 3 timestamp_ns int64, 4 events Event*
Event: 1 key int64, 2 offset_ps int64, 3 duration_ps int64, 4 stats Stat*
Stat: 1 key int64, 3 unsigned uint64, 4 signed int64, 5 text bytes, 7 reference uint64
"""


def _build_space_class(schema: str) -> Any:
    """Return protobuf's class for a `Space`; `*` stands for a repeated field."""
    kind = descriptor_pb2.FieldDescriptorProto
    scalars = {"int64": kind.TYPE_INT64, "uint64": kind.TYPE_UINT64, "bytes": kind.TYPE_BYTES}
    file = descriptor_pb2.FileDescriptorProto(name="trace_schema", package="trace_schema")
    for line in schema.strip().splitlines():
        message, _, fields = line.partition(": ")
        described = file.message_type.add(name=message)
        for field in fields.split(", "):
            number, name, typed = field.split()
            field_type = typed.rstrip("*")
            repeated = kind.LABEL_REPEATED if typed != field_type else kind.LABEL_OPTIONAL
            added = described.field.add(name=name, number=int(number), label=repeated)
            if field_type in scalars:
                added.type = scalars[field_type]
            else:
                added.type, added.type_name = kind.TYPE_MESSAGE, f".trace_schema.{field_type}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("trace_schema.Space"))


Space = _build_space_class(_SCHEMA)
