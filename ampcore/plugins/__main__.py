"""Prints what installed packages offer: a line of JSON for each, with its schema or its error.

Workers run this once, when they start.
"""

import json
import sys

from ampcore import plugins as packages

if __name__ == "__main__":
    for facts in packages.descriptions():
        sys.stdout.write(json.dumps(facts) + "\n")
