#!/usr/bin/env python3
"""Limits on size, as a test: a file has at most 450 lines, a function 60 lines and 6 parameters.

Functions are found by the layout that clang-format gives them: a definition begins in a column and
ends at the next line that is not indented further, which is "}". Test cases, which are macros, are not
functions; nor are lines of raw strings.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6

SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|class|struct|union|enum|extern|if|else|for|while|do|switch|case|try|catch|"
    r"return|template|public|private|protected|typedef|using|TEST_\w+|SUBCASE|#|//|\}|\{|const "
    r"auto \w+ = \[|auto \w+ = \[)")
RAW_STRING = re.compile(r'R"(\w*)\((.*?)\)\1"', re.DOTALL)
NAME_AND_OPENING = re.compile(r"[\w~\])>=+\-*/<!&|^]\s*\(")


def blank_raw_strings(text: str) -> str:
    """Replaces raw strings by as many empty lines, which count as no lines of a function."""
    return RAW_STRING.sub(lambda match: '""' + "\n\x00" * match.group(0).count("\n"), text)


def count_parameters(signature: str) -> int:
    """Counts the parameters of the first parenthesis after the name."""
    opening = NAME_AND_OPENING.search(signature)
    if opening is None:
        return 0
    depth = 0
    count = 0
    has_text = False
    for character in signature[opening.end() - 1:]:
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
            if depth == 0:
                break
        elif character == "," and depth == 1:
            count += 1
        elif not character.isspace():
            has_text = True
    return count + 1 if has_text else 0


def check_file(path: Path) -> tuple[int, list[str]]:
    """Returns the number of functions and a line for each breach."""
    name = path.relative_to(ROOT)
    text = path.read_text(encoding="utf-8")
    breaches = []
    num_lines = text.count("\n")
    if num_lines > MAX_FILE_LINES:
        breaches.append(f"{name}: {num_lines} lines; at most {MAX_FILE_LINES}")
    lines = blank_raw_strings(text).split("\n")
    functions = 0
    begin = None  # first line of the declaration that is being read
    for number, line in enumerate(lines):
        stripped = line.strip()
        if not stripped or stripped.endswith(";") or stripped.startswith(("//", "#", "\x00")):
            begin = None
            continue
        if begin is None:
            begin = number
        if not stripped.endswith("{"):
            if stripped.endswith(("}", ":", "*/")):
                begin = None
            continue
        signature = " ".join(lines[begin:number + 1])
        first = begin
        begin = None
        if NOT_A_FUNCTION.match(lines[first]) and not lines[first].lstrip().startswith("template"):
            continue
        if "(" not in signature or re.search(r"=\s*(\{|\[)", signature):
            continue
        column = len(lines[first]) - len(lines[first].lstrip())
        end = next((i for i in range(number + 1, len(lines))
                    if lines[i].strip("\x00").strip() and not lines[i].startswith("#")
                    and len(lines[i]) - len(lines[i].lstrip()) <= column), len(lines) - 1)
        if lines[end] != " " * column + "}":
            continue  # a statement with a lambda
        functions += 1
        length = sum(1 for line in lines[first:end + 1] if line != "\x00")
        if length > MAX_FUNCTION_LINES:
            breaches.append(f"{name}:{first + 1}: a function of {length} lines; at most "
                            f"{MAX_FUNCTION_LINES}")
        parameters = count_parameters(re.sub(r"^template\s*<[^{]*?>\s", "", signature))
        if parameters > MAX_PARAMETERS:
            breaches.append(f"{name}:{first + 1}: {parameters} parameters; at most "
                            f"{MAX_PARAMETERS}")
    return functions, breaches


def main() -> int:
    folders = [ROOT / "lib", ROOT / "kernels", ROOT / "apps"]
    files = sorted(path for folder in folders for path in folder.rglob("*")
                   if path.suffix in SOURCE_SUFFIXES)
    if not files:
        raise SystemExit("check_sizes: no sources found")
    found = [check_file(path) for path in files]
    breaches = [breach for _, of_file in found for breach in of_file]
    for breach in breaches:
        print(breach)
    print(f"check_sizes: {len(files)} files, {sum(count for count, _ in found)} "
          f"functions, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
