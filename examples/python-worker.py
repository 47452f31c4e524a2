# A worker in Python, with nothing but the standard library: python3 python-worker.py http://127.0.0.1:8080 mail
import json, os, signal, socket, sys, threading, time, urllib.error, urllib.request

server, queue, lease_s = sys.argv[1], sys.argv[2], float(os.environ.get("LEASE_S", "30"))
worker, token, stopping = f"python-{socket.gethostname()}-{os.getpid()}", os.environ.get("SLUICE_TOKEN"), threading.Event()
handlers = {"mail.send": lambda to: {"sent": to}, "mail.slow": lambda seconds: time.sleep(seconds)}


def post(path, body, timeout_s=30):
    headers = {"Content-Type": "application/openjobspec+json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{server}/ojs/v1/workers/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return json.load(answer)


def persist(path, body, until_s):
    """The same, again and again: a server that restarts or refuses for a while costs no finished work while the lease lasts."""
    pause_s = 0.2
    while True:
        try:
            return post(path, body)
        except urllib.error.HTTPError as error:
            if error.code not in (401, 408, 429) and error.code < 500:
                return print(f"{path} of {body['job_id']} was refused: {error.code}", file=sys.stderr)
        except OSError as error:
            print(f"{path}: {error}; trying again", file=sys.stderr)
        if time.monotonic() + pause_s > until_s:
            return None
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 5)


def run(job):
    about, ended, until_s = {"job_id": job["id"], "worker_id": worker, "attempt": job["attempt"]}, threading.Event(), [0.0]

    def renew():
        beat = {"worker_id": worker, "active_jobs": [job["id"]], "visibility_timeout_ms": int(lease_s * 1000)}
        while not ended.wait(lease_s / 3):
            try:
                if job["id"] in post("heartbeat", beat)["jobs_extended"]:
                    until_s[0] = time.monotonic() + lease_s
            except OSError:
                pass  # The next beat comes well before the lease is over.

    until_s[0] = time.monotonic() + lease_s
    threading.Thread(target=renew, daemon=True).start()
    try:
        if job["type"] not in handlers:
            raise LookupError(f"no handler for {job['type']}")
        outcome = ("ack", {**about, "result": handlers[job["type"]](*job["args"])})
    except Exception as error:
        outcome = ("nack", {**about, "error": {"code": "handler_error", "message": repr(error)}})
    persist(*outcome, until_s=until_s[0])
    ended.set()


# The job at hand ends, then the worker does.
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
pause_s = 0.2
while not stopping.is_set():
    try:
        fetch = {"queues": [queue], "worker_id": worker, "wait": "PT5S", "visibility_timeout_ms": int(lease_s * 1000)}
        jobs, pause_s = post("fetch", fetch)["jobs"], 0.2
    except (OSError, ValueError) as error:
        print(f"fetch: {error}; trying again", file=sys.stderr)
        stopping.wait(pause_s)
        pause_s = min(pause_s * 2, 5)
        continue
    for job in jobs:
        run(job)
