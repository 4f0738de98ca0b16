"""Rules of speed for the figures of kernels/cuda/resources.json, and the kernels that break them.

Rules:
  issued     the instructions of a warp per product of tensor cores, on the way through a loop that does
             most: at most 6 on sm_80, 5 on sm_90, where others would keep tensor cores waiting
  in_flight  the kilobytes that the warps of a multiprocessor have asked for before the first is needed, in
             kernels that read weights or pages once: at least 1.25 times what DRAM delivers to a
             multiprocessor in a latency of 1 us, on the card of an architecture where that is most

kernels/cuda/resource_exceptions.tsv lists the kernels that break one, with the figure and the reason. A
figure that is worse than there breaks the rule, and so does a line that no kernel needs.
resources.py checks both rules; sectors and wavefronts are counted on the emulator (tests/cuda/testing.h).
"""

from toolkit import KERNELS

EXCEPTIONS = KERNELS / "resource_exceptions.tsv"
MOST_ISSUED = {"80": 6.0, "90": 5.0}
# Of a T4, an A100, an L4 and an H200; sm_86, for which no preset is made, is taken as an L4.
KB_PER_US = {"75": 8, "80": 14, "86": 5, "89": 5, "90": 33}
MARGIN = 1.25
# Kernels that are bound by bytes from DRAM: products of few rows by weights, and attention of decoding.
# Not multiply_codes.cu, multiply_integers.cu and fp8_few_rows.cu: the copies of their ring lie in another
# loop than its wait, so that the record counts none; bench --predict takes the ring's depth.
STREAMING = {"few_rows.cu": "", "multiply_rows.cu": "", "attend_f32.cu": ", 1>",
             "attend_tiles.cu": "(TileWork)"}
PREFILL = "(TileWork)0>"  # attention of prompts, which tensor cores bound


def issued(its: dict) -> float | None:
    """Of the loop with the most instructions per product."""
    figures = [loop["working"] / loop["tensor"] for loop in its["loops"] if loop.get("tensor")]
    return round(max(figures), 2) if figures else None


def in_flight(its: dict) -> float:
    return round(max(its["loaded_ahead"], its["copied_ahead"]) * its["warps"] / 1024, 1)


def is_streaming(file: str, kernel: str) -> bool:
    return file in STREAMING and STREAMING[file] in kernel and not kernel.endswith(PREFILL)


def find_slow(record: dict) -> dict[tuple[str, str, str, str], float]:
    """The figures that break a rule, by (file, kernel, architecture, rule)."""
    slow = {}
    for file, entry in record["files"].items():
        for name, kernel in entry["kernels"].items():
            for architecture, its in kernel["architectures"].items():
                of = (file, name, architecture)
                if its.get("traps"):
                    continue
                figure = issued(its)
                if architecture in MOST_ISSUED and figure is not None and figure > MOST_ISSUED[architecture]:
                    slow[*of, "issued"] = figure
                if is_streaming(file, name) and in_flight(its) < MARGIN * KB_PER_US[architecture]:
                    slow[*of, "in_flight"] = in_flight(its)
    return slow


def read_exceptions() -> dict[tuple[str, str, str, str], tuple[float, str]]:
    """Figure and reason of each line."""
    found = {}
    for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            file, kernel, architecture, rule, figure, reason = line.split("\t")
            found[file, kernel, architecture.removeprefix("sm_"), rule] = (float(figure), reason)
    return found


def find_breaches_of_speed(record: dict) -> list[str]:
    slow = find_slow(record)
    exceptions = read_exceptions()
    breaches = []
    for (file, kernel, architecture, rule), figure in slow.items():
        of = f"kernels/cuda/{file}: {kernel} on sm_{architecture}: {rule}"
        limit = (f"at most {MOST_ISSUED[architecture]:g}" if rule == "issued"
                 else f"at least {MARGIN * KB_PER_US[architecture]:g} KB")
        allowed, reason = exceptions.get((file, kernel, architecture, rule), (None, ""))
        if allowed is None:
            breaches.append(f"{of} is {figure:g}, {limit}; {EXCEPTIONS.name} has no line with a reason")
        elif not reason.strip():
            breaches.append(f"{of}: its line of {EXCEPTIONS.name} has no reason")
        elif figure > allowed if rule == "issued" else figure < allowed:
            breaches.append(f"{of} is {figure:g}, worse than the {allowed:g} of {EXCEPTIONS.name}")
    breaches += [f"{EXCEPTIONS.name}: {file}: {kernel} on sm_{architecture} needs no line for {rule}"
                 for file, kernel, architecture, rule in exceptions.keys() - slow.keys()]
    return breaches
