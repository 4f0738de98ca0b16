"""Many mutations of one file in one text: each in the place of its line where CAPTION_MUTANT, a variable of the
environment, is its number. Only mutations of an expression or a statement that is on one line can be so
written; mutate.py compiles the others one by one."""

import re

# Compiled before every source, and linked without instrumentation.
HEADER = 'extern "C" __attribute__((const)) int caption_mutant();\n'
SOURCE = """#include <cstdlib>
static const int chosen = std::getenv("CAPTION_MUTANT") ? std::atoi(std::getenv("CAPTION_MUTANT")) : 0;
extern "C" int caption_mutant() { return chosen; }
"""
# An initial value, what is returned, and the condition of a branch or loop.
EXPRESSIONS = [re.compile(pattern) for pattern in [
    r"^(?P<before>(?:const )?[\w:]+(?:<[\w:, ]*>)?[&*]*(?: const)? \w+ = )(?P<it>[^{}]+)(?P<after>;)$",
    r"^(?P<before>return )(?P<it>[^{}]+)(?P<after>;)$",
    r"^(?P<before>(?:if|while) \()(?P<it>[^{};]+)(?P<after>\) (?:\{|[^(){};]*;|[^{};]*;))$",
    r"^(?P<before>for \([^;()]*; )(?P<it>[^;{}]+)(?P<after>; [^;]*\) .*)$"]]
# An assignment or a call, alone or after the head of a loop.
STATEMENT = re.compile(
    r"^(?P<before>(?:for \([^;]*;[^;]*;[^;()]*\) )?)"
    r"(?P<it>(?!return|const |for |if |while |else|break|continue|using|auto |\w+\(&\w+\)\[)"
    r"[\w:.>()\[\]*&-]+(?:\(.*\)| (?:=|\+=|-=|\*=) [^{}]+);)(?P<after>)$")


def is_balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if depth < 0:
            return False
    return depth == 0


def parts_of(pattern: re.Pattern, line: str, mutated: str) -> tuple[str, str, str, str] | None:
    """What is before, the mutated part as it is and as it becomes, what is after; None if it does not fit."""
    match = pattern.match(line)
    if match is None or not is_balanced(match["it"]):
        return None
    before, after = match["before"], match["after"]
    if not (mutated.startswith(before) and mutated.endswith(after)):
        return None
    becomes = mutated[len(before):len(mutated) - len(after)]
    return (before, match["it"], becomes, after) if is_balanced(becomes) else None


def switched_line(line: str, mutants: list[tuple[int, str]]) -> tuple[str, list[int]]:
    """The line with those of the mutants, numbers and mutated lines, that can be switched, and their numbers."""
    best: tuple[str, list[int]] = (line, [])
    if "constexpr" in line:
        return best
    for pattern in [*EXPRESSIONS, STATEMENT]:
        found = [(number, parts) for number, mutated in mutants
                 if (parts := parts_of(pattern, line, mutated)) is not None]
        if len(found) <= len(best[1]):
            continue
        before, it, _, after = found[0][1]
        if pattern is STATEMENT:
            text = "".join(f"if (caption_mutant() == {n}) {{ {p[2]} }} else " for n, p in found)
            best = f"{before}{{ {text}{{ {it} }} }}{after}", [n for n, _ in found]
        else:
            text = "".join(f"caption_mutant() == {n} ? ({p[2]}) : " for n, p in found)
            best = f"{before}({text}({it})){after}", [n for n, _ in found]
    return best


def switchable(text: str, mutations: list) -> list:
    """Those of a file's text that switched_line() can write, each alone, and whose line begins a statement."""
    codes = [line.split("//")[0].strip() for line in text.split("\n")]

    def is_first(at: int) -> bool:
        before = next((code for code in reversed(codes[:at - 1]) if code), ";")
        return before[-1] in ";{}):" or before.startswith("#") or before.endswith(("else", "UNROLL"))
    return [m for m in mutations if is_first(m.line) and switched_line(m.before, [(1, m.after)])[1]]


def switched(text: str, mutants: dict[int, list[tuple[int, str]]]) -> tuple[str, dict[int, int]]:
    """The text of a file with its mutants, by line: number and mutated line. Returns it and the line of each
    mutant that is in it. The line of a mutant has no comment."""
    lines = text.split("\n")
    places = {}
    for at, of_line in mutants.items():
        code = lines[at - 1].split("//")[0].strip()
        lines[at - 1], numbers = switched_line(code, of_line)
        places |= {number: at for number in numbers}
    return "\n".join(lines), places
