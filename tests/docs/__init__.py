"""The documentation is run: every block of code on every page, and the site is built."""
