// BullMQ over `ensile serve`: jobs, delays, priorities, retries, repeated jobs, parents, events. `bullmq.js PORT`
'use strict';

const assert = require('node:assert/strict');
const { FlowProducer, Queue, QueueEvents, Worker } = require('bullmq');
const Redis = require('ioredis');

const connection = { port: Number(process.argv[2]), host: '127.0.0.1' };
const JOBS = 50;
const WAIT_MILLIS = 60000;

async function main() {
    const db = new Redis(connection);
    await db.flushall();
    const queue = new Queue('jobs', { connection });
    const events = new QueueEvents('jobs', { connection });
    await events.waitUntilReady();
    const progressed = [];
    events.on('progress', ({ data }) => progressed.push(data));
    const order = [];
    const tries = new Map();
    const worker = new Worker('jobs', async (job) => {
        order.push(job.name);
        tries.set(job.id, (tries.get(job.id) ?? 0) + 1);
        if (job.name === 'fail' || (job.name === 'retry' && job.attemptsMade < 2)) {
            throw new Error('a failure of a job');
        }
        if (job.name === 'parent') {
            const children = Object.values(await job.getChildrenValues());
            return children.reduce((sum, value) => sum + value, 0);
        }
        await job.updateProgress(50);
        return (job.data.value ?? 0) * 2;
    }, { connection, concurrency: 5, autorun: false });
    // Priorities count while the jobs wait.
    await queue.add('last', {}, { priority: 10 });
    await queue.add('first', {}, { priority: 1 });
    assert.equal(await queue.getPrioritizedCount?.() ?? 2, 2);
    worker.run();

    const jobs = await queue.addBulk(
        Array.from({ length: JOBS }, (_, value) => ({ name: 'double', data: { value } })));
    const values = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, WAIT_MILLIS)));
    assert.deepEqual(values, Array.from({ length: JOBS }, (_, value) => value * 2));
    assert.ok(order.indexOf('first') < order.indexOf('last'));

    const begun = Date.now();
    const delayed = await queue.add('delayed', { value: 21 }, { delay: 500 });
    assert.equal(await delayed.waitUntilFinished(events, WAIT_MILLIS), 42);
    assert.ok(Date.now() - begun >= 450, 'a delay');

    const retried = await queue.add('retry', { value: 1 }, { attempts: 3, backoff: { type: 'fixed', delay: 50 } });
    assert.equal(await retried.waitUntilFinished(events, WAIT_MILLIS), 2);
    assert.equal(tries.get(retried.id), 3);

    const failed = await queue.add('fail', {});
    await assert.rejects(failed.waitUntilFinished(events, WAIT_MILLIS), /a failure of a job/);
    assert.equal(await failed.getState(), 'failed');
    assert.equal(await queue.getFailedCount(), 1);

    await queue.upsertJobScheduler('every', { every: 200 }, { name: 'repeated', data: { value: 3 } });
    while (order.filter((name) => name === 'repeated').length < 3) {
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.equal((await queue.getJobSchedulers()).length, 1);
    assert.equal(await queue.removeJobScheduler('every'), true);

    const flow = new FlowProducer({ connection });
    const children = [1, 2, 3].map((value) => ({ name: 'child', queueName: 'jobs', data: { value } }));
    const tree = await flow.add({ name: 'parent', queueName: 'jobs', children });
    assert.equal(await tree.job.waitUntilFinished(events, WAIT_MILLIS), 12);

    await queue.pause();
    const waiting = await queue.add('double', { value: 4 });
    assert.equal(await queue.isPaused(), true);
    await queue.resume();
    assert.equal(await waiting.waitUntilFinished(events, WAIT_MILLIS), 8);
    assert.ok(progressed.length > JOBS / 2, `${progressed.length} events of progress`);

    // A worker and its events go on behind a killed connection.
    await db.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const again = await queue.add('double', { value: 5 });
    assert.equal(await again.waitUntilFinished(events, WAIT_MILLIS), 10);

    const counts = await queue.getJobCounts('completed', 'failed', 'waiting', 'active', 'delayed');
    assert.ok(counts.completed >= JOBS && counts.failed === 1 && counts.active === 0, JSON.stringify(counts));
    await worker.close();
    await queue.obliterate({ force: true });
    await Promise.all([events.close(), flow.close(), queue.close()]);
    db.disconnect();
    console.log(`BullMQ ${require('bullmq/package.json').version}: ${order.length} runs of jobs`);
}

main().then(() => process.exit(0), (error) => {
    console.error('BullMQ:', error);
    process.exit(1);
});
