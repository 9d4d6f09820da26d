"""Runs both sides of every row of docs/migrating.md, and compares the keys on their servers.

A section whose table follows `<!-- rows: KIND ... -->` becomes two programs: the cells of the second column and those of
the third, in order. Each program runs on three separate servers and stops after every row. Then both must have the same
keys, whose TTLs differ by less than two seconds. With `ours`, only the third column is run.

usage: migrating.py FOLDER     the folder contains venv and node_modules; a Cargo project is created in it
"""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import redis

ROOT = Path(__file__).resolve().parents[2]
SERVERS = 3
PATIENCE = 5.0
NODE_LISTS = (b"redlock:nodes", b"redlock:nodes:other")

THIS_LIBRARY = """
#![allow(unused)]
use redlock_redis_rs::KeepAlive;
{main}
"""
RSLOCK = """
#![allow(unused)]
use rslock::LockManager;
{main}
"""
REDLOCK = """
#![allow(unused)]
use redlock::RedLock;
{main}
"""
MAIN = """
use std::io::BufRead;
use std::time::Duration;

fn row() {{
    println!("row");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}}

{attributes} fn main() -> Result<(), Box<dyn std::error::Error>> {{
    let urls: Vec<String> = std::env::args().skip(1).collect();
    let ttl = Duration::from_secs(10);
{rows}
    Ok(())
}}
"""
PYTHON = """
import sys
from redlock import Redlock

urls = sys.argv[1:]
{rows}
"""
NODE = """
const {{ createRequire }} = require('module');
const {{ createInterface }} = require('readline');
const installed = createRequire(process.env.INTEROP_NODE_PACKAGES);
const Redis = installed('ioredis');
const Redlock = [installed('{package}')].map((all) => all.Redlock ?? all)[0];
const clients = process.argv.slice(2).map((url) => new Redis(url));
const lines = createInterface({{ input: process.stdin }})[Symbol.asyncIterator]();
const row = () => (console.log('row'), lines.next());
(async () => {{
{rows}
  process.exit(0);
}})().catch((error) => (console.error(error), process.exit(1)));
"""


def sections():
    """Returns the title, the kind, and the rows as (task, other library, redlock)."""
    text = (ROOT / "docs" / "migrating.md").read_text()
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        marker = re.search(r"<!-- rows: (.*?) -->\n\|.*\n\|.*\n((?:\|.*\n)+)", part)
        assert marker, f"no rows: {part}"
        rows = []
        for line in marker[2].splitlines():
            cells = re.fullmatch(r"\| (.*?) \| `(.*)` \| `(.*)` \|", line)
            assert cells, line
            rows.append(tuple(cell.replace(r"\|", "|") for cell in cells.groups()))
        yield part.splitlines()[0], marker[1].split(), rows


def rust(header, cells, is_async):
    def statement(cell):
        return cell if cell.endswith(";") else cell + ";"

    rows = "\n".join(f"    {statement(cell)} row();" for cell in cells)
    attributes = "#[tokio::main] async" if is_async else ""
    return header.format(main=MAIN.format(attributes=attributes, rows=rows))


def other_program(kind, cells):
    match kind:
        case ["python", _]:
            return PYTHON.format(rows="\n".join(f"{cell}\nprint('row', flush=True); sys.stdin.readline()" for cell in cells))
        case ["node", package]:
            rows = "\n".join(f"  {cell} await row();" for cell in cells)
            return NODE.format(package=package, rows=rows)
        case ["rust"]:
            is_rslock = "LockManager" in cells[0]
            return rust(RSLOCK if is_rslock else REDLOCK, cells, is_rslock)
        case _:
            return None


class Servers:
    def __init__(self):
        self.processes, self.urls = [], []
        for _ in range(SERVERS):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", "/"]
            self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            self.urls.append(f"redis://127.0.0.1:{port}")
        self.clients = [redis.Redis.from_url(url) for url in self.urls]
        for client in self.clients:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    assert time.monotonic() < deadline, "a server does not start"
                    time.sleep(0.02)

    def keys(self):
        """Returns the keys of every server with their expiry, except those with which programs compare their node lists."""
        now = time.monotonic()

        def of(client):
            keys = (key for key in client.keys() if not key.endswith(NODE_LISTS))
            return {key: now + client.pttl(key) / 1000 for key in keys}

        return [of(client) for client in self.clients]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def are_equal(one, other):
    return all(
        left.keys() == right.keys() and all(abs(left[key] - right[key]) < 2 for key in left)
        for left, right in zip(one, other)
    )


class Program:
    def __init__(self, command, urls):
        self.command = command
        self.process = subprocess.Popen([*command, *urls], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def row(self):
        line = self.process.stdout.readline()
        assert line == "row\n", f"{self.command} has ended: {line!r}"

    def proceed(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.kill()
        self.process.wait()


def project(folder, programs):
    """Compiles the programs in Rust, in a separate project, and returns their folder."""
    binaries = folder / "src" / "bin"
    binaries.mkdir(parents=True)
    for name, source in programs.items():
        (binaries / f"{name}.rs").write_text(source)
    (folder / "Cargo.toml").write_text(
        f"""
[package]
name = "migrating"
version = "0.0.0"
edition = "2024"

[workspace]

[profile.dev]
debug = 0

[dependencies]
redlock = "=2.0.0"
redlock-redis-rs = {{ path = "{ROOT}/redlock-redis-rs" }}
rslock = {{ version = "=0.10.0", features = ["tokio-comp"] }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread", "time"] }}
"""
    )
    target = ROOT / "target" / "interop"
    subprocess.run(["cargo", "build", "-q", "--bins", "--target-dir", target], cwd=folder, check=True)
    return target / "debug"


def main():
    folder = Path(sys.argv[1])
    every = list(enumerate(sections()))
    programs = {}
    for number, (_, kind, rows) in every:
        programs[f"this_{number}"] = rust(THIS_LIBRARY, [cell for _, _, cell in rows], True)
        if kind == ["rust"]:
            programs[f"other_{number}"] = other_program(kind, [cell for _, cell, _ in rows])
    binaries = project(folder / "migrating", programs)
    failures = 0
    print("\n| docs/migrating.md | rows | both sides run | the same locks after each |\n|---|---|---|---|")
    for number, (title, kind, rows) in every:
        commands = [[binaries / f"this_{number}"]]
        if kind == ["rust"]:
            commands.append([binaries / f"other_{number}"])
        elif (source := other_program(kind, [cell for _, cell, _ in rows])) is not None:
            file = folder / f"other_{number}.{'py' if kind[0] == 'python' else 'js'}"
            file.write_text(source)
            commands.append([sys.executable if kind[0] == "python" else "node", file])
        wrong = run(commands, rows)
        failures += bool(wrong)
        print(f"| {title} | {len(rows)} | {'yes' if len(commands) > 1 else 'this library only'} | {wrong or 'yes'} |", flush=True)
    sys.exit(1 if failures else 0)


def run(commands, rows):
    """Returns a description of the difference, if there is one."""
    servers = [Servers() for _ in commands]
    programs = [Program(command, each.urls) for command, each in zip(commands, servers)]
    try:
        for task, _, _ in rows:
            for program in programs:
                program.row()
            deadline = time.monotonic() + PATIENCE
            while not are_equal(servers[0].keys(), servers[-1].keys()):
                if time.monotonic() > deadline:
                    return f"NO: {task}: {servers[0].keys()} and {servers[-1].keys()}"
                time.sleep(0.05)
            for program in programs:
                program.proceed()
        for program in programs:
            if program.process.wait(PATIENCE) != 0:
                return f"NO: {program.command} fails"
        return None
    except AssertionError as error:
        return f"NO: {error}"
    finally:
        for each in [*programs, *servers]:
            each.stop()


main()
