"""What mutate.py found: mutations that change no result, with reasons, and the counts of each file."""

import hashlib
import json
from pathlib import Path

KERNELS = Path(__file__).resolve().parent.parent.parent / "kernels" / "cuda"
EQUIVALENT = Path(__file__).resolve().parent / "equivalent_mutations.tsv"
VERDICTS = Path(__file__).resolve().parent / "mutation_verdicts.tsv"
KINDS = ["noticed", "equivalent", "does not compile", "NOT NOTICED"]


def read_verdicts(path: Path) -> dict[str, str]:
    """How mutations were noticed, by hash_of()."""
    if not path.exists():
        return {}
    verdicts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {verdict["hash"]: verdict["how"] for verdict in verdicts}


def read_equivalent() -> dict[tuple[str, str, str], str]:
    rows = [line.split("\t") for line in EQUIVALENT.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]
    return {(file, before, after): why for file, before, after, why in rows}


def digest_of(name: str) -> str:
    return hashlib.sha256((KERNELS / name).read_bytes()).hexdigest()[:16]


def record(counts_of: dict[str, dict[str, int]], judged: str) -> None:
    """Replaces the lines of these files in mutation_verdicts.tsv; `judged` says which mutations were."""
    lines = VERDICTS.read_text(encoding="utf-8").splitlines() if VERDICTS.exists() else []
    rows = {line.split("\t")[0]: line for line in lines if not line.startswith("#")}
    for name, counts in counts_of.items():
        rows[name] = "\t".join([name, digest_of(name), *(str(counts[kind]) for kind in KINDS), judged])
    head = "\t".join(["# file", "digest", "noticed", "equivalent", "does not compile", "not noticed", "judged"])
    kept = [rows[name] for name in sorted(rows) if (KERNELS / name).exists()]
    VERDICTS.write_text("\n".join([head, *kept]) + "\n", encoding="utf-8")
