"""The package's version, read by the build and by `querymode --version`."""

__version__ = "0.1.0"
