#!/usr/bin/env python3
"""The object files of kernels/cpu's instruction sets share no function, as a test.

    check_tier_symbols.py NM OBJECT...

Of a function that several object files define (inline ones and templates) the linker keeps one copy,
for all tiers: with instructions, perhaps, that this CPU does not have. So a file that is compiled for
an instruction set may define none. NM is binutils' nm; other object files are passed over.
"""

import re
import subprocess
import sys

TIER_OBJECT = re.compile(r"/cpu/(avx2|avxvnni|avx512|avx512bf16|amx)/")
SHARED_FUNCTION = re.compile(r"^[0-9a-f]+ W (.+)$")


def shared_functions(nm: str, object_file: str) -> list[str]:
    listing = subprocess.run([nm, "--demangle", "--defined-only", object_file], check=True,
                             capture_output=True, text=True).stdout
    return [match.group(1) for line in listing.splitlines() if (match := SHARED_FUNCTION.match(line))]


def main() -> int:
    nm, *objects = sys.argv[1:]
    tiers = [path for path in objects if TIER_OBJECT.search(path)]
    if not tiers:
        print("check_tier_symbols: no object file of an instruction set among the arguments")
        return 1
    breaches = [(path, name) for path in tiers for name in shared_functions(nm, path)]
    for path, name in breaches:
        print(f"{path}: {name}: make it static")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
