// ioredis against `ensile serve`. `ioredis.js PORT`
'use strict';

const assert = require('node:assert/strict');
const Redis = require('ioredis');

const KEYS = 500;
const options = { port: Number(process.argv[2]), host: '127.0.0.1' };

function client(more) {
    const db = new Redis({ ...options, ...more });
    // A killed connection is an event, and the client connects again.
    db.on('error', () => {});
    return db;
}

const values = (replies) => replies.map(([error, value]) => (error ? 'error' : value));

async function waiting(db) {
    while (!/blocked_clients:[1-9]/.test(await db.info('clients'))) {
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

async function basics(db) {
    assert.equal(await db.set('s', 'v', 'EX', 100, 'NX'), 'OK');
    assert.equal(await db.set('s', 'w', 'NX'), null);
    assert.deepEqual(await db.mget('s', 'none'), ['v', null]);
    await db.hset('h', { x: 1, y: 'z' });
    assert.deepEqual(await db.hgetall('h'), { x: '1', y: 'z' });
    await db.zadd('z', 1, 'one', 0.5, 'half');
    assert.deepEqual(await db.zrange('z', 0, -1, 'WITHSCORES'), ['half', '0.5', 'one', '1']);
    assert.equal((await db.getBuffer('s')).toString(), 'v');
    await assert.rejects(db.lpush('s', 1), /WRONGTYPE/);
    await assert.rejects(db.call('NO.SUCH.COMMAND'), /unknown command/);
}

async function transactions(db, other) {
    assert.deepEqual(values(await db.pipeline().set('p', 5).incr('p').get('p').exec()), ['OK', 6, '6']);
    assert.deepEqual(values(await db.multi().incr('p').lpush('p', 1).incr('p').exec()), [7, 'error', 8]);
    await db.watch('p');
    await other.incr('p');
    assert.equal(await db.multi().set('p', 0).exec(), null);
    await db.watch('p');
    assert.deepEqual(values(await db.multi().incr('p').exec()), [10]);
    await db.multi({ pipeline: false });
    assert.equal(await db.get('p'), 'QUEUED');
    assert.deepEqual(await db.exec(), [[null, '10']]);
}

async function scripts(db) {
    db.defineCommand('addTo', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    assert.equal(await db.addTo('sc', 40), 40);
    await db.script('FLUSH');
    assert.equal(await db.addTo('sc', 2), 42);
    assert.deepEqual(values(await db.pipeline().addTo('sc', 1).addTo('sc', 1).exec()), [43, 44]);
    assert.deepEqual(values(await db.multi().addTo('sc', 1).exec()), [45]);
}

async function messages(db, more) {
    const heard = client(more);
    const got = [];
    heard.on('message', (channel, text) => got.push([channel, text]));
    heard.on('pmessage', (pattern, channel, text) => got.push([pattern, channel, text]));
    assert.equal(await heard.subscribe('news'), 1);
    assert.equal(await heard.psubscribe('n*'), 2);
    assert.equal(await db.publish('news', 'hello'), 2);
    while (got.length < 2) {
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.deepEqual(got.sort((one, other) => one.length - other.length), [['news', 'hello'], ['n*', 'news', 'hello']]);
    // A killed listener listens again.
    await db.client('KILL', 'TYPE', 'pubsub');
    while ((await db.publish('news', 'again')) === 0) {
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
    while (!got.some((message) => message.includes('again'))) {
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
    heard.disconnect();
}

async function waits(db, more) {
    const waiter = client(more);
    const popped = waiter.blpop('w1', 'w2', 30);
    await waiting(db);
    await db.rpush('w2', 'x');
    assert.deepEqual(await popped, ['w2', 'x']);
    assert.equal(await waiter.brpop('w1', 0.05), null);
    await db.zadd('wz', 3, 'm');
    assert.deepEqual(await waiter.bzpopmin('wz', 5), ['wz', 'm', '3']);
    waiter.disconnect();
}

async function scanned(stream) {
    const all = new Set();
    for await (const part of stream) {
        part.forEach((one) => all.add(one));
    }
    return all.size;
}

async function scans(db) {
    await db.mset(new Map(Array.from({ length: KEYS }, (_, number) => [`scan:${number}`, number])));
    assert.equal(await scanned(db.scanStream({ match: 'scan:*', count: 50 })), KEYS);
    await db.sadd('ss', ...Array(KEYS).keys());
    assert.equal(await scanned(db.sscanStream('ss')), KEYS);
}

async function reconnects(db, other) {
    const number = await db.client('ID');
    assert.equal(await other.client('KILL', 'ID', number), 1);
    assert.equal(await db.set('again', 1), 'OK');
    assert.notEqual(await db.client('ID'), number);
}

async function run(more) {
    const [db, other] = [client(more), client(more)];
    await db.flushall();
    await basics(db);
    await transactions(db, other);
    await scripts(db);
    await messages(db, more);
    await waits(db, more);
    await scans(db);
    await reconnects(db, other);
    [db, other].forEach((one) => one.disconnect());
}

async function main() {
    await run({});
    await run({ connectionName: 'io', db: 2 });
    // Requests of one turn of the event loop go together.
    const together = client({ enableAutoPipelining: true });
    const sums = await Promise.all(Array.from({ length: 100 }, () => together.incr('n')));
    assert.deepEqual(sums, Array.from({ length: 100 }, (_, number) => number + 1));
    await together.flushall();
    together.disconnect();
    console.log(`ioredis ${require('ioredis/package.json').version}: plain, named in another database, pipelined`);
}

main().then(() => process.exit(0), (error) => {
    console.error('ioredis:', error);
    process.exit(1);
});
