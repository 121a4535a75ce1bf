// ioredis against the hash table: pipelines, transactions, names, databases, retries. `ioredis.js PORT`
'use strict';

const Redis = require('ioredis');

const port = Number(process.argv[2]);
const options = { port, host: '127.0.0.1' };

function check(holds, text) {
    if (!holds) {
        throw new Error(`ioredis: ${text}`);
    }
}

function client(more) {
    const table = new Redis({ ...options, ...more });
    // An error of the connection also fails the command that waits for it.
    table.on('error', () => {});
    return table;
}

async function fails(text, call) {
    let reply;
    try {
        reply = await call();
    } catch (error) {
        return error;
    }
    throw new Error(`ioredis: ${text} returned ${JSON.stringify(reply)}`);
}

const values = (replies) => JSON.stringify(replies.map(([error, value]) => (error ? 'error' : value)));

async function transactions(table, name) {
    const key = `io:${name}`;
    let replies = await table.multi().set(key, 5).incr(key).get(key).exec();
    check(values(replies) === '["OK",6,"6"]', `${name}: a transaction replied ${values(replies)}`);
    const error = await fails(`${name}: a transaction with an unknown command`, () =>
        table.multi().incr(key).call('NO.SUCH.COMMAND', key).incr(key).exec());
    check((await table.get(key)) === '6', `${name}: a failed transaction was carried out (${error})`);
    replies = await table.multi().set(`${key}:text`, 'x').incr(`${key}:text`).incr(key).exec();
    check(values(replies) === '["OK","error",7]', `${name}: the others of a failed command: ${values(replies)}`);
    // Without its own pipeline: each command by itself.
    await table.multi({ pipeline: false });
    check((await table.incr(key)) === 'QUEUED', `${name}: a command behind MULTI is not queued`);
    replies = await table.exec();
    check(JSON.stringify(replies) === '[[null,8]]', `${name}: EXEC replied ${JSON.stringify(replies)}`);
}

async function pipelines(table, name) {
    const key = `io:${name}:pipeline`;
    let replies = await table.pipeline().incr(key).incr(key).get(key).exec();
    check(values(replies) === '[1,2,"2"]', `${name}: a pipeline replied ${values(replies)}`);
    replies = await table.pipeline().incr(key).call('NO.SUCH.COMMAND', key).incr(key).exec();
    check(values(replies) === '[3,"error",4]', `${name}: a broken pipeline replied ${values(replies)}`);
}

async function main() {
    const plain = client({});
    const variants = {
        default: plain,
        named: client({ connectionName: 'io' }),
        retrying: client({ retryStrategy: () => 10, maxRetriesPerRequest: 3, reconnectOnError: () => 2 }),
    };
    for (const [name, table] of Object.entries(variants)) {
        check((await table.ping()) === 'PONG', `${name}: no PONG`);
        if (name !== 'retrying') {
            await pipelines(table, name);
            await transactions(table, name);
        }
    }
    check((await variants.named.client('GETNAME')) === 'io', 'the name is not kept');

    // A client that retries an error connects and sends again. No attempt may be carried out.
    for (let attempt = 0; attempt < 3; attempt += 1) {
        await fails('a retried transaction', () =>
            variants.retrying.multi().incr('io:counted').call('NO.SUCH.COMMAND').exec());
    }
    check((await plain.get('io:counted')) === null, 'a retried transaction was carried out');

    const refused = { retryStrategy: (times) => (times < 4 ? 10 : null), maxRetriesPerRequest: 3 };
    for (const [more, name] of [[{ db: 1 }, 'database 1'], [{ password: 'secret' }, 'a password']]) {
        for (const [kind, call] of [
            ['a SET', (table) => table.set('io:other', 1)],
            ['a transaction', (table) => table.multi().set('io:other', 1).exec()],
            ['a pipeline', async (table) => {
                const replies = await table.pipeline().set('io:other', 1).exec();
                check(replies.some(([error]) => error), `a pipeline with ${name} replied ${values(replies)}`);
                throw new Error('as it is to be');
            }],
        ]) {
            const table = client({ ...refused, ...more });
            await fails(`${kind} with ${name}`, () => call(table));
            table.disconnect();
        }
        check((await plain.get('io:other')) === null, `a command with ${name} was carried out`);
    }

    await fails('WATCH', () => plain.watch('io:watched'));
    Object.values(variants).forEach((table) => table.disconnect());
    console.log(`ioredis ${require('ioredis/package.json').version}: ${Object.keys(variants).length} kinds of clients`);
}

main().then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
});
