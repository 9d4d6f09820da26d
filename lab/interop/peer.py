"""A Redlock client in Python, controlled line by line: see redlock-redis-rs/examples/interop/peer.rs.

usage: peer.py redlock-py|pottery URL...
"""

import os
import random
import sys
import time


class RedlockPy:
    def __init__(self, urls):
        import redlock

        self.client = redlock.Redlock(urls, retry_count=1, retry_delay=0.002)

    def lock(self, name, millis):
        self.held = self.client.lock(name, millis)
        return bool(self.held)

    def unlock(self):
        self.client.unlock(self.held)


class Pottery:
    # Its key is "redlock:" and the name.
    def __init__(self, urls):
        import logging

        import pottery
        import redis

        logging.disable(logging.CRITICAL)  # it logs every release of an expired lock
        self.pottery = pottery
        self.masters = {redis.Redis.from_url(url) for url in urls}

    def lock(self, name, millis):
        self.held = self.pottery.Redlock(key=name, masters=self.masters, auto_release_time=millis / 1000)
        return self.held.acquire(blocking=False)

    def unlock(self):
        try:
            self.held.release()
        except self.pottery.ReleaseUnlockedLock:
            pass  # the lock had expired


def contend(client, name, millis, folder, mark, rounds):
    overlaps = mine = 0
    judge, log = os.path.join(folder, "judge"), os.path.join(folder, "log")
    while True:
        while not client.lock(name, millis):
            time.sleep(random.uniform(0.001, 0.004))
        try:
            os.close(os.open(judge, os.O_CREAT | os.O_EXCL))
            is_alone = True
        except FileExistsError:
            overlaps, is_alone = overlaps + 1, False
        with open(log, "a") as file:
            file.write(mark)
        last = os.path.getsize(log) >= rounds
        time.sleep(0.001)
        mine += 1
        if is_alone:
            os.remove(judge)
        client.unlock()
        if last:
            return f"{mine} {overlaps}"
        time.sleep(random.uniform(0, 0.003))


def main():
    which, urls = sys.argv[1], sys.argv[2:]
    client = {"redlock-py": RedlockPy, "pottery": Pottery}[which](urls)
    for line in sys.stdin:
        match line.split():
            case ["lock", name, millis]:
                reply = "held" if client.lock(name, int(millis)) else "denied"
            case ["unlock"]:
                client.unlock()
                reply = "done"
            case ["contend", name, millis, folder, mark, rounds]:
                reply = contend(client, name, int(millis), folder, mark, int(rounds))
            case words:
                raise ValueError(f"unknown command: {words}")
        print(reply, flush=True)


main()
