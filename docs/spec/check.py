"""Runs TLC on the configurations of the specifications. scripts/spec prepares the JAR file.

The first line of a configuration states what is expected: `\\* expect: holds`, or `\\* expect: violates NAME ..`. For
the second, TLC runs once for each name, with this property alone.
"""

import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
SECTIONS = re.compile(r"^(INVARIANTS?|PROPERT(?:Y|IES)) (.*)\n", re.MULTILINE)


def missing_code():
    """Returns the references to code that is gone."""
    for module in sorted(FOLDER.glob("*.tla")):
        for number, line in enumerate(module.read_text().splitlines(), 1):
            if "Code: " not in line:
                continue
            path, *names = line.split("Code: ")[1].split()
            code = ROOT / path
            text = code.read_text() if code.is_file() else None
            if text is None or not all(re.search(rf"\b{re.escape(name)}\b", text) for name in names):
                yield f"{module.name}:{number}: {' '.join([path, *names])}"


def unused():
    """Returns the broken rules and the states to be reached that no configuration names."""
    for module in sorted(FOLDER.glob("*.tla")):
        text = module.read_text()
        named = " ".join(path.read_text() for path in (FOLDER / module.stem).glob("*.cfg"))
        rules = re.search(r"^Rules == \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
        names = re.findall(r'^    "(\w+)"', rules[1], re.MULTILINE) + re.findall(r"^(Never\w+) ==", text, re.MULTILINE)
        yield from (f"{module.name}: {name}" for name in names if not re.search(rf"\b{name}\b", named))


def run(jar, module, configuration):
    """Runs TLC, and returns its output and its seconds of CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.cfg").write_text(configuration)
        shutil.copy(module, folder)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        java = ["java", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={folder}", "-cp", jar]
        tlc = ["tlc2.TLC", "-deadlock", "-workers", "1", "-metadir", folder, "-config", "run.cfg", module.name]
        done = subprocess.run(java + tlc, cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return done.stdout + done.stderr, seconds


def verdict(output):
    """Returns what TLC has found: `holds`, the name of the violated property, or `fails`."""
    violated = re.search(r"(?:Invariant|Action property) (\w+) is violated", output)
    if violated:
        return violated[1]
    return "holds" if "Model checking completed. No error has been found." in output else "fails"


def counts(output):
    """Returns the numbers of generated and distinct states, and the depth or the length of the trace."""
    states = re.findall(r"(\d+) states generated, (\d+) distinct states found", output)
    generated, distinct = states[-1] if states else ("", "")
    trace = re.findall(r"^State (\d+):", output, re.MULTILINE)
    depth = re.findall(r"The depth of the complete state graph search is (\d+)", output)
    return generated, distinct, (trace or depth or [""])[-1]


def checks(path):
    """Returns the runs for a configuration: the expectation and the text of each."""
    text = path.read_text()
    expectation = re.match(r"\\\* expect: (holds|violates( \w+)+)\n", text)
    if not expectation:
        sys.exit(f"{path}: the first line must be `\\* expect: holds` or `\\* expect: violates NAME ..`")
    if expectation[1] == "holds":
        return [("holds", text)]
    kinds = {name: kind for kind, names in SECTIONS.findall(text) for name in names.split()}
    names = expectation[1].split()[1:]
    if set(names) != set(kinds):
        sys.exit(f"{path}: the expected violations must be its invariants and properties")
    rest = SECTIONS.sub("", text)
    return [(name, f"{rest}{kinds[name]} {name}\n") for name in names]


def main():
    jar, pattern = str(Path(sys.argv[1]).resolve()), "".join(sys.argv[2:3])
    for problem, places in [("code that is gone", missing_code()), ("names without a configuration", unused())]:
        if found := list(places):
            sys.exit("\n".join([f"{problem}:", *found]))
    paths = [path for path in sorted(FOLDER.glob("*/*.cfg")) if pattern in str(path.relative_to(FOLDER))]
    if not paths:
        sys.exit(f"no configuration matches {pattern}")
    wrong = 0
    print("| Configuration | Result | States generated | Distinct | Depth | CPU seconds |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    for path in paths:
        module = FOLDER / f"{path.parent.name}.tla"
        for expected, text in checks(path):
            output, seconds = run(jar, module, text)
            found = verdict(output)
            result = "holds" if found == "holds" else f"violates {found}" if found != "fails" else "TLC failed"
            generated, distinct, depth = counts(output)
            name = f"{path.parent.name}/{path.stem}"
            print(f"| {name} | {result} | {generated} | {distinct} | {depth} | {seconds:.0f} |", flush=True)
            if found != expected:
                wrong += 1
                print(f"{output}\n{name}: expected {expected}", file=sys.stderr)
    if wrong:
        sys.exit(f"{wrong} configurations have another result than expected")


main()
