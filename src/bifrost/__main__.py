"""`python -m bifrost` is the `bifrost` command."""

from bifrost.cli.entry import run

if __name__ == "__main__":
    run()
