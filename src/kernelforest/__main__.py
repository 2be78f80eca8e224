"""`python -m kernelforest` is the command line."""

from kernelforest.cli import main

raise SystemExit(main())
