"""celery with `ensile serve` as its broker and for its results. `celery_tasks.py PORT`"""

import sys
from importlib.metadata import version

from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker
from celery.exceptions import TimeoutError

PORT = int(sys.argv[1])
SECONDS_MAX = 60

app = Celery("tasks", broker=f"redis://127.0.0.1:{PORT}/0", backend=f"redis://127.0.0.1:{PORT}/1")
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(one, other):
    return one + other


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail():
    raise ValueError("a task's failure")


@app.task(bind=True, max_retries=3)
def third_try(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


def check(holds, text):
    if not holds:
        sys.exit(f"celery: {text}")


def run():
    with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False, shutdown_timeout=SECONDS_MAX):
        check(add.delay(2, 3).get(timeout=SECONDS_MAX) == 5, "a task")
        check(add.apply_async((1, 1), countdown=1).get(timeout=SECONDS_MAX) == 2, "a delayed task")
        check(third_try.delay().get(timeout=SECONDS_MAX) == 2, "a task that is tried again")
        numbers = group(add.s(number, 1) for number in range(50)).apply_async().get(timeout=SECONDS_MAX)
        check(numbers == list(range(1, 51)), f"a group: {numbers}")
        check(chord((add.s(number, 0) for number in range(20)), total.s()).delay().get(timeout=SECONDS_MAX) == 190, "a chord")
        check((add.s(1, 2) | add.s(3)).delay().get(timeout=SECONDS_MAX) == 6, "a chain")
        failed = fail.delay()
        try:
            failed.get(timeout=SECONDS_MAX)
            check(False, "a failed task has a result")
        except ValueError as error:
            check(str(error) == "a task's failure", f"a failed task: {error}")
        check(failed.state == "FAILURE", "the state of a failed task")
        pongs = app.control.ping(timeout=5)
        check(pongs and list(pongs[0].values())[0] == {"ok": "pong"}, f"a broadcast: {pongs}")
    queued = add.delay(1, 1)
    try:
        queued.get(timeout=0.5)
        check(False, "a task without a worker has a result")
    except TimeoutError:
        pass
    with app.connection_for_read() as connection:
        check(connection.default_channel.queue_purge("celery") == 1, "the purge of a queue")
    print(f"celery {version('celery')} with redis-py {version('redis')}: tasks, groups, chords, retries, broadcasts")


run()
