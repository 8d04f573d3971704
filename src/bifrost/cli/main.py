"""The `bifrost` command. Each noun has its file; none of them is imported before it is used."""

from __future__ import annotations

import typer

from bifrost.cli.lazy import LazyGroup, Noun

RUN = "Run a cluster"
WORK = "Work with a cluster, Bifrost or Apache Kafka"
DATA = "Send and read"
LOOK = "Look things up"


class Bifrost(LazyGroup):
    """Every noun of the command, in the order of the front page."""

    nouns = {  # noqa: RUF012  # a ClassVar in the base
        "up": Noun("bifrost.cli.up", "up", "Start a cluster here and now, with data in ./bifrost-data.", RUN),
        "status": Noun("bifrost.cli.status", "status", "Show the cluster that `bifrost up` runs here.", RUN),
        "down": Noun("bifrost.cli.down", "down", "Stop the cluster that `bifrost up` runs here.", RUN),
        "server": Noun("bifrost.cli.server", "server", "Run one node in the foreground.", RUN),
        "topic": Noun("bifrost.cli.topic", "app", "Make topics, look at them, change and delete them.", WORK),
        "group": Noun("bifrost.cli.group", "app", "Look at consumer groups, reset and delete them.", WORK),
        "config": Noun("bifrost.cli.config", "app", "Read and change the settings of topics and brokers.", WORK),
        "quota": Noun("bifrost.cli.quota", "app", "Limit what clients may use of a cluster.", WORK),
        "cluster": Noun("bifrost.cli.cluster", "app", "Look at a cluster as a whole.", WORK),
        "broker": Noun(
            "bifrost.cli.broker", "app", "Look at the brokers of a cluster, and move what they carry.", WORK
        ),
        "quorum": Noun("bifrost.cli.quorum", "app", "Look at the controllers that decide for a cluster.", WORK),
        "produce": Noun("bifrost.cli.produce", "produce", "Send lines from stdin or a file to a topic.", DATA),
        "consume": Noun("bifrost.cli.consume", "consume", "Print the messages of topics.", DATA),
        "perf": Noun("bifrost.cli.perf", "app", "Measure a cluster: throughput and latency.", DATA),
        "console-producer": Noun(
            "bifrost.cli.console_producer",
            "console_producer",
            "Send lines as Kafka's console producer does, with its options.",
            DATA,
        ),
        "console-consumer": Noun(
            "bifrost.cli.console_consumer",
            "console_consumer",
            "Print messages as Kafka's console consumer does, with its options.",
            DATA,
        ),
        "pipeline": Noun(
            "bifrost.cli.pipeline", "app", "Make and run pipelines on Spark, from topics to topics.", DATA
        ),
        "warm": Noun("bifrost.cli.warm", "warm", "Compile the kernels that read and write topics as Arrow.", DATA),
        "log": Noun("bifrost.cli.log", "app", "Look into the files of a partition.", LOOK),
        "settings": Noun(
            "bifrost.cli.settings",
            "settings",
            "List the settings of a node, under Kafka's names, with defaults and meaning.",
            LOOK,
        ),
        "apis": Noun(
            "bifrost.cli.apis",
            "apis",
            "List the APIs of Kafka's protocol that this broker answers, with their versions.",
            LOOK,
        ),
    }


app = typer.Typer(
    name="bifrost",
    cls=Bifrost,
    help="Event streaming that speaks Kafka's protocol: run a cluster, work with any Kafka cluster.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    epilog="Start with [bold]bifrost up[/bold], then point any Kafka client at the address it prints.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from bifrost import __version__

        typer.echo(f"bifrost {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """What every command shares."""
