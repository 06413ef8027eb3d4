"""`python -m weir`: the command, where it is not on the path."""

from weir.cli.start import main

if __name__ == "__main__":
    main()
