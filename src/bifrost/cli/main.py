"""The `bifrost` command. Each noun has its file; nothing heavy is imported before a command runs."""

from __future__ import annotations

import typer

from bifrost.cli import apis, log, server, settings, up

app = typer.Typer(
    name="bifrost",
    help="Event streaming that speaks Kafka's protocol: run a broker, look into its logs.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    epilog="Start with [bold]bifrost up[/bold], then point any Kafka client at the address it prints.",
)
app.command("up")(up.up)
app.command("server")(server.server)
app.add_typer(log.app, name="log")
app.command("apis")(apis.apis)
app.command("settings")(settings.settings)


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
) -> None:
    """What every command shares."""


def run() -> None:
    """The console script's entry point."""
    app(prog_name="bifrost")
