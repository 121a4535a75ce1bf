// node-redis against `ensile serve`. `node_redis.js PORT`
'use strict';

const assert = require('node:assert/strict');
const { createClient, createClientPool, defineScript, WatchError } = require('redis');

const KEYS = 500;
const socket = { port: Number(process.argv[2]), host: '127.0.0.1' };

const addTo = defineScript({
    SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, by) {
        parser.pushKey(key);
        parser.push(by.toString());
    },
    transformReply: (reply) => reply,
});

async function connected(more) {
    const db = createClient({ socket, scripts: { addTo }, ...more });
    db.on('error', () => {});
    await db.connect();
    return db;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 10));

async function basics(db) {
    assert.equal(await db.set('s', 'v', { EX: 100, NX: true }), 'OK');
    assert.equal(await db.set('s', 'w', { NX: true }), null);
    assert.deepEqual(await db.mGet(['s', 'none']), ['v', null]);
    await db.hSet('h', { x: 1, y: 'z' });
    assert.deepEqual({ ...(await db.hGetAll('h')) }, { x: '1', y: 'z' });
    await db.zAdd('z', [{ score: 1, value: 'one' }, { score: 0.5, value: 'half' }]);
    assert.deepEqual(await db.zRangeWithScores('z', 0, -1), [
        { value: 'half', score: 0.5 }, { value: 'one', score: 1 }]);
    assert.deepEqual([...(await db.sMembers('none'))], []);
    await assert.rejects(db.lPush('s', '1'), /WRONGTYPE/);
}

async function transactions(db, other) {
    const together = await Promise.all([db.set('p', 5), db.incr('p'), db.get('p')]);
    assert.deepEqual(together, ['OK', 6, '6']);
    assert.deepEqual(await db.multi().incr('p').get('p').exec(), [7, '7']);
    assert.deepEqual(await db.multi().incr('p').get('p').execAsPipeline(), [8, '8']);
    await db.watch('p');
    await other.incr('p');
    await assert.rejects(db.multi().set('p', 0).exec(), WatchError);
    await db.watch('p');
    assert.deepEqual(await db.multi().incr('p').exec(), [10]);
}

async function scripts(db) {
    assert.equal(await db.addTo('sc', 40), 40);
    await db.scriptFlush();
    assert.equal(await db.addTo('sc', 2), 42);
    assert.deepEqual(await db.multi().addTo('sc', 1).exec(), [43]);
    assert.deepEqual(await db.eval('return {KEYS[1], ARGV[1]}', { keys: ['k'], arguments: ['a'] }), ['k', 'a']);
}

async function messages(db) {
    const heard = await connected({ RESP: db.options?.RESP });
    const got = [];
    await heard.subscribe('news', (text, channel) => got.push([channel, text]));
    await heard.pSubscribe('n*', (text, channel) => got.push(['pattern', channel, text]));
    assert.equal(await db.publish('news', 'hello'), 2);
    while (got.length < 2) {
        await pause();
    }
    assert.deepEqual(got.sort((one, other) => one.length - other.length), [
        ['news', 'hello'], ['pattern', 'news', 'hello']]);
    await db.clientKill({ filter: 'TYPE', type: 'pubsub' });
    while ((await db.publish('news', 'again')) === 0) {
        await pause();
    }
    while (!got.some((message) => message.includes('again'))) {
        await pause();
    }
    heard.destroy();
}

async function waits(db, version) {
    const waiter = await connected({ RESP: version });
    const popped = waiter.blPop(['w1', 'w2'], 30);
    while (!/blocked_clients:[1-9]/.test(await db.info('clients'))) {
        await pause();
    }
    await db.rPush('w2', 'x');
    assert.deepEqual({ ...(await popped) }, { key: 'w2', element: 'x' });
    assert.equal(await waiter.brPop('w1', 0.05), null);
    await db.zAdd('wz', { score: 3, value: 'm' });
    assert.deepEqual({ ...(await waiter.bzPopMin('wz', 5)) }, { key: 'wz', value: 'm', score: 3 });
    waiter.destroy();
}

async function scanned(iterator) {
    const all = new Set();
    for await (const part of iterator) {
        part.forEach((one) => all.add(one.field ?? one.value ?? one));
    }
    return all.size;
}

async function scans(db) {
    const numbers = Array.from({ length: KEYS }, (_, number) => number.toString());
    await db.mSet(numbers.map((number) => [`scan:${number}`, number]));
    assert.equal(await scanned(db.scanIterator({ MATCH: 'scan:*', COUNT: 50 })), KEYS);
    await db.sAdd('ss', numbers);
    assert.equal(await scanned(db.sScanIterator('ss')), KEYS);
    await db.hSet('sh', Object.fromEntries(numbers.map((number) => [number, number])));
    assert.equal(await scanned(db.hScanIterator('sh')), KEYS);
}

async function reconnects(db, other) {
    const number = await db.clientId();
    assert.equal(await other.clientKill({ filter: 'ID', id: number }), 1);
    while (!db.isReady || (await db.clientId().catch(() => number)) === number) {
        await pause();
    }
    assert.equal(await db.set('again', 1), 'OK');
}

async function run(version) {
    const [db, other] = [await connected({ RESP: version, name: 'node' }), await connected({ RESP: version })];
    await db.flushAll();
    await basics(db);
    await transactions(db, other);
    await scripts(db);
    await messages(db);
    await waits(db, version);
    await scans(db);
    assert.equal(await db.clientGetName(), 'node');
    assert.ok((await db.clientInfo()).id > 0);
    assert.ok((await db.commandCount()) > 200);
    assert.equal((await db.configGet('appendonly')).appendonly, 'yes');
    await reconnects(db, other);
    [db, other].forEach((one) => one.destroy());
}

async function main() {
    await run(2);
    await run(3);
    const pool = createClientPool({ socket });
    await pool.connect();
    const sums = await Promise.all(Array.from({ length: 100 }, () => pool.incr('n')));
    assert.equal(Math.max(...sums), 100);
    await pool.flushAll();
    pool.destroy();
    console.log(`node-redis ${require('redis/package.json').version}: protocols 2 and 3, a pool`);
}

main().then(() => process.exit(0), (error) => {
    console.error('node-redis:', error);
    process.exit(1);
});
