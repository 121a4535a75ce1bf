"""rq over `ensile serve`: jobs, results, failures, retries, dependencies and delays. `rq_jobs.py PORT`"""

import sys
from datetime import timedelta

import redis
import rq
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry


def add(one, other):
    return one + other


def fail():
    raise ValueError("a job's failure")


def fail_once(port):
    if redis.Redis(port=port).incr("rq:tries") == 1:
        raise ValueError("the first try")
    return "second"


def check(holds, text):
    if not holds:
        sys.exit(f"rq: {text}")


def run(port):
    connection = redis.Redis(host="127.0.0.1", port=port)
    connection.flushall()
    queue = rq.Queue("jobs", connection=connection)
    jobs = [queue.enqueue(add, number, 1) for number in range(20)]
    failed = queue.enqueue(fail)
    tried = queue.enqueue(fail_once, port, retry=rq.Retry(max=2))
    behind = queue.enqueue(add, 1, 1, depends_on=jobs)
    later = queue.enqueue_in(timedelta(seconds=1), add, 20, 3)
    check(len(queue) == 22, f"{len(queue)} jobs wait")
    check(later.id in ScheduledJobRegistry(queue=queue), "a job is scheduled")
    # A worker with processes of its own, as `rq worker --burst` has.
    check(rq.Worker([queue], connection=connection).work(burst=True), "the worker has worked")
    check([job.return_value() for job in jobs] == list(range(1, 21)), "results of jobs")
    check(behind.return_value() == 2, "a job behind other jobs")
    check(tried.return_value() == "second", "a job that is tried again")
    check(failed.get_status() == "failed" and failed.id in FailedJobRegistry(queue=queue), "a failed job")
    check("a job's failure" in failed.latest_result().exc_string, "the reason of a failure")
    check(jobs[0].id in FinishedJobRegistry(queue=queue), "a finished job")
    check(Job.fetch(jobs[3].id, connection=connection).args == (3, 1), "a fetched job")
    worker = rq.SimpleWorker([queue], connection=connection)
    worker.work(burst=True, with_scheduler=True)
    for _ in range(30):
        if later.get_status(refresh=True) == "finished":
            break
        worker.work(burst=True, with_scheduler=True, max_idle_time=1)
    check(later.return_value() == 23, f"a delayed job: {later.get_status()}")
    check(rq.Worker.count(connection=connection) == 0, "workers are gone")
    connection.flushall()
    print(f"rq {rq.VERSION}: {len(jobs)} jobs, failures, retries, dependencies, a delay")


if __name__ == "__main__":
    # The worker's processes import this file by its name.
    import rq_jobs

    rq_jobs.run(int(sys.argv[1]))
