// node-redis against the hash table: pipelines, transactions, names, databases, retries. `node_redis.js PORT`
'use strict';

const { createClient } = require('redis');

const port = Number(process.argv[2]);

function check(holds, text) {
    if (!holds) {
        throw new Error(`node-redis: ${text}`);
    }
}

async function connected(more, socket = {}) {
    const table = createClient({ socket: { port, host: '127.0.0.1', ...socket }, ...more });
    // An error of the connection also fails the command that waits for it.
    table.on('error', () => {});
    await table.connect();
    return table;
}

async function fails(text, call) {
    let reply;
    try {
        reply = await call();
    } catch (error) {
        return error;
    }
    throw new Error(`node-redis: ${text} returned ${JSON.stringify(reply)}`);
}

async function transactions(table, name) {
    const key = `node:${name}`;
    const replies = await table.multi().set(key, '5').incr(key).get(key).exec();
    check(JSON.stringify(replies) === '["OK",6,"6"]', `${name}: a transaction replied ${JSON.stringify(replies)}`);
    const error = await fails(`${name}: a transaction with an unknown command`, () =>
        table.multi().incr(key).addCommand(['NO.SUCH.COMMAND', key]).incr(key).exec());
    check((await table.get(key)) === '6', `${name}: a failed transaction was carried out (${error})`);
    await fails(`${name}: a transaction with a failed command`, () =>
        table.multi().set(`${key}:text`, 'x').incr(`${key}:text`).incr(key).exec());
    check((await table.get(key)) === '7', `${name}: the others of a failed command`);
}

async function pipelines(table, name) {
    const key = `node:${name}:pipeline`;
    // Commands of one turn of the event loop are a pipeline.
    const turn = await Promise.all([table.incr(key), table.incr(key), table.get(key)]);
    check(JSON.stringify(turn) === '[1,2,"2"]', `${name}: a pipeline replied ${JSON.stringify(turn)}`);
    const replies = await table.multi().incr(key).incr(key).execAsPipeline();
    check(JSON.stringify(replies) === '[3,4]', `${name}: a pipeline replied ${JSON.stringify(replies)}`);
    await fails(`${name}: a pipeline with an unknown command`, () =>
        table.multi().incr(key).addCommand(['NO.SUCH.COMMAND', key]).incr(key).execAsPipeline());
    check((await table.get(key)) === '6', `${name}: each command of a pipeline once`);
}

async function main() {
    const variants = {
        default: await connected({}),
        'second protocol': await connected({ RESP: 2 }),
        'third protocol': await connected({ RESP: 3 }),
        named: await connected({ name: 'node' }),
        'named, third protocol': await connected({ name: 'node', RESP: 3 }),
        retrying: await connected({}, { reconnectStrategy: () => 10 }),
    };
    for (const [name, table] of Object.entries(variants)) {
        check((await table.ping()) === 'PONG', `${name}: no PONG`);
        await pipelines(table, name);
        await transactions(table, name);
    }
    for (const name of ['named', 'named, third protocol']) {
        check((await variants[name].clientGetName()) === 'node', `${name}: the name is not kept`);
    }

    // Each attempt on a connection of its own, as by an application that retries.
    for (let attempt = 0; attempt < 5; attempt += 1) {
        const table = await connected({}, { reconnectStrategy: () => 10 });
        await fails('a retried transaction', () =>
            table.multi().incr('node:counted').addCommand(['NO.SUCH.COMMAND']).exec());
        table.destroy();
    }
    check((await variants.default.get('node:counted')) === null, 'a retried transaction was carried out');

    const bounded = { reconnectStrategy: (retries) => (retries < 3 ? 10 : new Error('refused')) };
    for (const [more, name] of [
        [{ database: 1 }, 'database 1'],
        [{ database: 1, RESP: 3 }, 'database 1, third protocol'],
        [{ password: 'secret' }, 'a password'],
        [{ password: 'secret', RESP: 3 }, 'a password, third protocol'],
    ]) {
        await fails(`a SET with ${name}`, async () => {
            const table = await connected(more, bounded);
            return table.set('node:other', '1');
        });
        await fails(`a transaction with ${name}`, async () => {
            const table = await connected(more, bounded);
            return table.multi().set('node:other', '1').exec();
        });
        check((await variants.default.get('node:other')) === null, `a command with ${name} was carried out`);
    }

    await fails('WATCH', () => variants.default.watch('node:watched'));
    Object.values(variants).forEach((table) => table.destroy());
    console.log(`node-redis ${require('redis/package.json').version}: ${Object.keys(variants).length} kinds of clients`);
}

main().then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
});
