"""`python -m falseok` is the same as the `falseok` command."""

from falseok.entry import main

if __name__ == "__main__":
    main()
