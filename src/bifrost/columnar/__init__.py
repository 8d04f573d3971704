"""Topics as columns: record batches to Arrow and back, without one Python object per record.

`decoder` and `encoder` are the two directions, `kernels` what they are made of, `reading` and `writing` whole topics.
Nothing here is imported before it is used: pyarrow and numba come with the extra `arrow`, and a program that only plans
a read must not wait for a compiler to load.
"""
