// A Redlock client in Node, controlled line by line: see redlock-redis-rs/examples/interop/peer.rs.
//
// usage: node peer.js redlock|@sesamecare-oss/redlock URL...
'use strict';

const fs = require('fs');
const path = require('path');
const readline = require('readline');
const { createRequire } = require('module');

// The packages are installed elsewhere.
const installed = createRequire(path.join(process.env.INTEROP_NODE_PACKAGES, 'x.js'));
const Redis = installed('ioredis');

const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

const libraries = {
  redlock(clients) {
    const Redlock = installed('redlock');
    const redlock = new Redlock(clients, { retryCount: 0 });
    return { acquire: (name, millis) => redlock.lock(name, millis), isDenied: (error) => error instanceof Redlock.LockError };
  },
  '@sesamecare-oss/redlock'(clients) {
    const { Redlock, ExecutionError } = installed('@sesamecare-oss/redlock');
    const redlock = new Redlock(clients, { retryCount: 0 });
    redlock.on('error', () => {}); // it reports every denied attempt
    return { acquire: (name, millis) => redlock.acquire([name], millis), isDenied: (error) => error instanceof ExecutionError };
  },
};

class Client {
  constructor(which, urls) {
    this.clients = urls.map((url) => new Redis(url));
    this.library = libraries[which](this.clients);
  }

  async lock(name, millis) {
    try {
      this.held = await this.library.acquire(name, millis);
      return true;
    } catch (error) {
      if (!this.library.isDenied(error)) throw error;
      return false;
    }
  }

  async unlock() {
    try {
      await (this.held.release ?? this.held.unlock).call(this.held);
    } catch (error) {
      if (!this.library.isDenied(error)) throw error; // otherwise it had expired
    }
  }
}

async function contend(client, name, millis, folder, mark, rounds) {
  const [judge, log] = [path.join(folder, 'judge'), path.join(folder, 'log')];
  let [mine, overlaps] = [0, 0];
  for (;;) {
    while (!(await client.lock(name, millis))) await sleep(1 + 3 * Math.random());
    let alone = true;
    try {
      fs.closeSync(fs.openSync(judge, 'wx'));
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      [alone, overlaps] = [false, overlaps + 1];
    }
    fs.appendFileSync(log, mark);
    const last = fs.statSync(log).size >= rounds;
    await sleep(1);
    mine += 1;
    if (alone) fs.unlinkSync(judge);
    await client.unlock();
    if (last) return `${mine} ${overlaps}`;
    await sleep(3 * Math.random());
  }
}

async function main() {
  const [which, ...urls] = process.argv.slice(2);
  const client = new Client(which, urls);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, name, millis, folder, mark, rounds] = line.split(' ');
    if (what === 'lock') console.log((await client.lock(name, Number(millis))) ? 'held' : 'denied');
    else if (what === 'unlock') console.log((await client.unlock(), 'done'));
    else if (what === 'contend') console.log(await contend(client, name, Number(millis), folder, mark, Number(rounds)));
    else throw new Error(`unknown command: ${line}`);
  }
  client.clients.forEach((each) => each.disconnect());
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
