"""`python -m weir`: the command-line entry point."""

from weir.cli.start import main

if __name__ == "__main__":
    main()
