"""What the source does to the processes that Spark runs it in: little, once, and nothing to the program's own.

Each test has a Python of its own, since what is imported or frozen once stays so.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

OPTIONS = '{"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}'


def run(code: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"PYTHONPATH": ":".join(each for each in sys.path if each), "BIFROST_KERNELS": "numpy"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_being_found_costs_next_to_nothing() -> None:
    """Every session with any Python source imports all packages called pyspark_..., and load() asks for a schema."""
    loaded = run(f"""
        import sys
        import pyspark.sql.datasource, pyspark.sql.streaming.datasource
        before = set(sys.modules)
        import pyspark_bifrost
        pyspark_bifrost.DefaultSource({OPTIONS}).schema()
        print(*sorted(set(sys.modules) - before))
    """).split()
    ours = {name for name in loaded if name.startswith("bifrost.")}
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"bifrost", "pyspark_bifrost"}
    assert not {
        name for name in ours if name.startswith(("bifrost.client.wire", "bifrost.columnar", "bifrost.protocol"))
    }


TASK = {
    "reading": """
        from bifrost.spark.range_reader import Share
        from bifrost.spark.rows import default_schema, read_rows

        options = read_options(given, Use.BATCH_READ)
        rows = read_rows(options, Share(()), default_schema(options))
        task = lambda: list(rows)
    """,
    "writing": """
        from bifrost.spark.sink import write_rows

        given["topic"] = given.pop("subscribe")
        task = lambda: write_rows(write_options(given, Use.BATCH_WRITE), ("value",), iter(()))
    """,
}


@pytest.mark.parametrize("kind", TASK)
@pytest.mark.parametrize("in_a_task", [True, False])
def test_the_garbage_collector_is_spared_what_the_first_task_has_loaded(kind: str, in_a_task: bool) -> None:
    """Spark's daemon collects all garbage after every task; what is frozen is not looked at again."""
    begin = "TaskContext._taskContext = TaskContext()" if in_a_task else ""
    code = f"""
        import gc
        from pyspark import TaskContext
        from bifrost.spark.option_table import Use
        from bifrost.spark.read_options import read_options
        from bifrost.spark.write_options import write_options

        given = {OPTIONS}
        {{task}}
        {begin}
        before = gc.get_freeze_count()
        task()
        print(before, gc.get_freeze_count() > 10_000)
    """
    task = textwrap.indent(textwrap.dedent(TASK[kind]), " " * 8)
    assert run(code.replace("{task}", task.lstrip())) == f"0 {in_a_task}", "not before, and only in a task"


def test_a_stream_asks_for_a_writer_twice_in_every_batch_and_its_topic_is_looked_up_once() -> None:
    """The second writer hears of what the tasks of the first one wrote; the process is the same."""
    said = run("""
        import pickle
        import bifrost.client.wire
        from pyspark.sql.types import StringType, StructField, StructType
        from bifrost.spark.outbox import Written
        from bifrost.spark.source import BifrostSource

        class Client:
            asked = 0

            def partitions(self, topic):
                self.asked += 1
                return [0]

        client = Client()
        bifrost.client.wire.shared_client = lambda *_: client
        source = BifrostSource({"kafka.bootstrap.servers": "localhost:1", "topic": "t", "checkpointlocation": "c"})
        schema = StructType([StructField("value", StringType())])
        for batch in range(3):
            pickle.loads(pickle.dumps(source.streamWriter(schema, overwrite=False)))
            source.streamWriter(schema, overwrite=False).commit([Written(3), None], batch)
        print(client.asked)
    """)
    assert said == "1"


def test_an_older_spark_is_told_and_its_other_sources_are_left_alone() -> None:
    """Spark fails every Python source of a session if one of the packages cannot be imported."""
    said = run(f"""
        import sys
        import pyspark.sql.datasource
        sys.modules["pyspark.sql.streaming.datasource"] = None  # it came with 4.2
        from pyspark_bifrost import DefaultSource
        print(DefaultSource.name())
        try:
            DefaultSource({OPTIONS})
        except Exception as error:
            print(error)
    """)
    assert said.startswith('bifrost\nformat("bifrost") needs PySpark 4.2 or newer, and this is ')
