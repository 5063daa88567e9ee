"""`python -m server` is `ampserver`."""

from server.cli.app import main

if __name__ == "__main__":
    main()
