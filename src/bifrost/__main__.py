"""`python -m bifrost` is the `bifrost` command."""

from bifrost.cli.main import run

if __name__ == "__main__":
    run()
