"""`bifrost pipeline`: Spark Declarative Pipelines on topics."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from bifrost.cli.entry import INTERRUPTED
from bifrost.cli.options import CONTEXT, Bootstrap, Json, parse_assignments
from bifrost.cli.output import remark
from bifrost.client.errors import BifrostError

app = typer.Typer(
    no_args_is_help=True, context_settings=CONTEXT, help="Make and run pipelines on Spark, from topics to topics."
)

Where = Annotated[
    Path, typer.Argument(metavar="[PATH]", help="The project, or its spark-pipeline.yml.", show_default="here")
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        "-m",
        metavar="URL",
        help="local[4], spark://host:7077, yarn, k8s://…, sc://host:15002. Else what the project says, local[*].",
        show_default=False,
    ),
]


class ShipChoice(StrEnum):
    """What executors of a cluster are given."""

    VENV = "venv"
    ZIP = "zip"
    NONE = "none"

    @property
    def sent(self) -> Literal["venv", "zip"] | None:
        return "venv" if self is self.VENV else "zip" if self is self.ZIP else None


Ship = Annotated[
    ShipChoice,
    typer.Option(
        "--ship",
        help="Send to a cluster's executors: venv, all libraries of this environment; zip, this package alone.",
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage", metavar="URI", help="Instead of the project's: checkpoints and tables.", show_default=False
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.", show_default=False),
]


@app.command()
def init(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="A directory to make.", show_default=False)],
) -> None:
    """Write a new project.

    A specification, one file of definitions that read a topic and write a table
    and a topic, a test that runs all of it on a broker of its own, a README.

    \b
    $ bifrost pipeline init readings && cd readings && pytest
    """
    from bifrost.pipeline.scaffold import write_project

    for path in write_project(name):
        typer.echo(f"wrote {path}")
    remark(f"next: cd {name}; bifrost pipeline run --dry-run")


@app.command()
def run(
    path: Where = Path(),
    master: Master = None,
    ship: Ship = ShipChoice.NONE,
    bootstrap: Bootstrap = None,
    storage: Storage = None,
    conf: Conf = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check definitions and topics; run nothing.")] = False,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Empty all tables, forget all checkpoints, begin anew.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each change of a flow.")] = False,
) -> None:
    """Run the pipeline over everything that is there now.

    Shows rows and lag of each flow while it runs. The next run goes on where
    this one ends; Ctrl-C stops it, and nothing is lost. An address that the
    project names is taken before that of the environment.

    \b
    $ bifrost pipeline run
    $ bifrost pipeline run --master spark://spark:7077 --ship venv --bootstrap kafka:9092 readings
    $ bifrost pipeline run --dry-run
    """
    from bifrost.cli.data.flows import VALID, JsonFlows, LineFlows, LiveFlows, is_terminal
    from bifrost.pipeline.running import run as run_pipeline

    settings = parse_assignments(conf or [], "--conf", "spark.sql.shuffle.partitions=8")
    view = JsonFlows() if as_json else LiveFlows() if is_terminal() else LineFlows()
    with view:
        try:
            outcome = run_pipeline(
                path,
                bootstrap=bootstrap,
                master=master,
                ship=ship.sent,
                storage=storage,
                settings=settings,
                dry_run=dry_run,
                full_refresh=full_refresh,
                watcher=view,
            )
        except KeyboardInterrupt:
            view.end("stopped", "the next run goes on where this one was")
            raise typer.Exit(INTERRUPTED) from None
        except BifrostError:
            view.end("failed")
            raise
        view.end(VALID if dry_run else "completed")
    if dry_run and not as_json:
        typer.echo(f"{outcome.name} is valid: {', '.join(flow.name for flow in outcome.flows)}")


@app.command()
def validate(
    path: Where = Path(),
    bootstrap: Bootstrap = None,
    master: Master = None,
    ship: Ship = ShipChoice.NONE,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Check definitions and topics; run nothing.

    The same as `run --dry-run`.
    """
    run(path, master=master, ship=ship, bootstrap=bootstrap, conf=conf, dry_run=True, as_json=as_json)
